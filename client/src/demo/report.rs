//! What the demo prints: the plan first, the truth last, in a small table. Pure but for `out`.

use std::io::{self, Write};

use super::{DemoOptions, DemoOutcome};

/// What a node's line on refusals has in it.
const REFUSAL_MARK: &str = "for slots it does not own";

/// What is going to happen.
pub(super) fn plan(out: &mut dyn Write, options: &DemoOptions) -> io::Result<()> {
    let late = grouped(options.late_readings());
    let seconds = options.late.as_secs_f64();
    write!(
        out,
        "A cluster of its own on four free ports of this machine, removed at the end:\n  \
         1. node-a, node-b and node-c own all slots; four boxes, ingest-1 to ingest-4, write\n     \
         readings, each to the node that its own map names, and follow no redirect\n  \
         2. node-d joins and takes over a quarter of the slots; three boxes get the new map\n  \
         3. ingest-4 writes {late} readings by its old map ({seconds:.1} s, for the story's \
         twelve minutes)\n  \
         4. it is told; every reading is looked for on every node\n\
         Beside it: a model of a fleet whose shards take every write, given the same readings.\n\n"
    )
}

/// The truth.
pub(super) fn table(out: &mut dyn Write, outcome: &DemoOutcome) -> io::Result<()> {
    let (slotd, model) = (&outcome.slotd, &outcome.unchecked);
    writeln!(out, "\n{:<40}{:>10}{:>20}", "", "slotd", "no check (model)")?;
    for (what, slotd, model) in [
        ("readings written", slotd.written, model.written),
        ("refused, kept, written by the new map", slotd.refused, model.refused),
        ("acknowledged", slotd.acknowledged, model.acknowledged),
        ("misplaced", slotd.misplaced, model.misplaced),
        ("not found where readers look", slotd.not_found, model.not_found),
    ] {
        writeln!(out, "{what:<40}{:>10}{:>20}", grouped(slotd), grouped(model))?;
    }
    writeln!(
        out,
        "\nThe nodes counted {} refusals. One of their log lines:",
        grouped(outcome.refusals_counted_by_nodes)
    )?;
    let line = outcome.log_lines.first().map_or("(none was found)", String::as_str);
    writeln!(out, "  {line}")?;
    for fault in &outcome.faults {
        writeln!(out, "FAULT {fault}")?;
    }
    if !outcome.is_clean() {
        return writeln!(out, "CHECK FAILED: what slotd says and what its nodes hold differ.");
    }
    writeln!(
        out,
        "Without the refusals, these {} readings would lie on nodes that do not own them.\n\
         slotd misplaced nothing: a stale writer is a line in a log.",
        grouped(slotd.refused)
    )
}

/// The lines on refusals in what a node printed, without what stands before the node's name.
pub(super) fn refusal_lines(printed: &str) -> Vec<String> {
    let is_it = |line: &&str| line.contains(REFUSAL_MARK) && line.contains("ingest-");
    let bare = |line: &str| line.find("node-").map_or(line, |at| &line[at..]).trim_end().to_owned();
    printed.lines().filter(is_it).map(bare).collect()
}

/// A number with a comma between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let texts = [0, 999, 1000, 24_000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "24,000", "1,234,567"]);
    }

    #[test]
    fn a_nodes_line_on_refusals_is_found_and_bared() {
        let told = "node-b refused 312 commands for slots it does not own in the last 1.0 s, most \
                    from 'ingest-4' at 127.0.0.1 (slot 12182 is node-d's)";
        let log = format!("slotd is ready\n2026-01-01T00:00:00Z  WARN {told}\nstopping\n");
        assert_eq!(refusal_lines(&log), [told]);
        assert_eq!(refusal_lines(&log.replace("ingest-4", "demo-audit")), Vec::<String>::new());
    }
}
