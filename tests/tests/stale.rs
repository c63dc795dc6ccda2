//! A stale client of a running node is a line in its log, a figure in INFO, and no write.

use std::fs;
use std::time::{Duration, Instant};

use slot_tests::pair::Pair;
use slot_tests::resp::Value;

#[test]
fn a_stale_writer_is_one_line_a_second_and_counted_in_info() {
    let pair = Pair::start("127.0.0.1", &[]).expect("two nodes form a cluster");
    let node = &pair.b;
    let mut writer = node.client().expect("a connection");
    writer.say("CLIENT SETNAME ingest-3").expect("a reply");
    for _ in 0..312 {
        let refused = writer.say("SET bar 1").expect("a reply");
        assert_eq!(refused, Value::Error("MOVED 5061 127.0.0.1:7777".into()));
    }
    let info = writer.say("INFO cluster").expect("a reply");
    let info = info.text().expect("text").to_owned();
    assert!(info.contains("\r\ncluster_stale_refusals:312\r\n"), "{info}");
    assert!(info.contains("cluster_stale_client_0:refusals=312,host=127.0.0.1,"), "{info}");
    assert!(info.contains(",name=ingest-3\r\n"), "{info}");

    // A slow machine may take more than a second for them: then there is a line for each.
    let log = node.dir().join("stdout");
    let refused_in = |line: &str| -> Option<u64> {
        let (_, rest) = line.split_once("node-b refused ")?;
        let end = ", most from 'ingest-3' at 127.0.0.1 (slot 5061 is node-a's)";
        assert!(rest.trim_end().ends_with(end), "{line}");
        rest.split(' ').next()?.parse().ok()
    };
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let text = fs::read_to_string(&log).expect("the log");
        let lines: Vec<u64> = text.lines().filter_map(refused_in).collect();
        if lines.iter().sum::<u64>() == 312 {
            assert!(lines.len() < 20, "{text}");
            break;
        }
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
