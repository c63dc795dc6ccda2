//! The four ingest boxes: one of them is told late that the fleet has grown. Nothing is
//! misplaced, and every write by the old map is refused and counted.
//!
//! The story itself is `slotctl demo stale-writer`; here it is held to its word.

use std::net::TcpStream;
use std::time::Duration;

use slot_client::demo::{DemoOptions, run};
use slot_tests::process::binary;

/// A rate that a slow machine keeps up with, and enough readings by the old map that a fleet
/// without the check misplaces more than a thousand: three of four.
const PER_SECOND: u32 = 2000;
const LATE: Duration = Duration::from_secs(1);

#[test]
fn four_ingest_boxes_and_one_of_them_is_told_late() {
    let slotd = Some(binary().expect("a slotd binary"));
    let options = DemoOptions { slotd, late: LATE, per_second: PER_SECOND };
    let mut printed = Vec::new();
    let outcome = run(&options, &mut printed);
    let printed = String::from_utf8(printed).expect("text");
    let outcome = outcome.unwrap_or_else(|error| panic!("{printed}{error}"));
    println!("{printed}");
    assert_eq!(outcome.slotd.misplaced, 0, "{printed}");
    assert_eq!(outcome.slotd.not_found, 0, "{printed}");
    assert_eq!(outcome.slotd.acknowledged, outcome.slotd.written, "{printed}");
    // A quarter of the slots went over, and with them about a quarter of the late box's readings.
    assert!(outcome.stale_writes >= options.late_readings(), "{printed}");
    assert!(outcome.slotd.refused * 5 > outcome.stale_writes, "{printed}");
    assert_eq!(outcome.slotd.refused, outcome.refusals_counted_by_nodes, "{printed}");
    assert!(outcome.is_clean(), "{printed}");
    let line = outcome.log_lines.first().unwrap_or_else(|| panic!("no line: {printed}"));
    assert!(line.contains("most from 'ingest-4' at 127.0.0.1"), "{line}");

    assert_eq!(outcome.unchecked.written, outcome.slotd.written);
    assert_eq!(outcome.unchecked.acknowledged, outcome.slotd.written, "every write succeeds");
    assert!(outcome.unchecked.misplaced > 1000, "{printed}");

    assert_eq!(outcome.nodes.len(), 4);
    for node in &outcome.nodes {
        assert!(TcpStream::connect(node).is_err(), "{node} is left running");
    }
}
