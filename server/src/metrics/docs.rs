//! The metrics in words: the manual's chapter, made from the declarations.
//!
//! Invariant: `manual/metrics.md` is what [`docs`] returns (a test holds it).

use std::fmt::Write;

use super::declared::ALL;

const INTRODUCTION: &str = "\
# Metrics

Made from the declarations in `metrics/declared.rs`; `UPDATE_EXPECT=1` rewrites this page.

With `--metrics-port N` a node answers plain HTTP on that port, on the addresses of `metrics-bind`
(by default those of `bind`): `GET /metrics` in Prometheus's text format 0.0.4, and `GET /healthz`
with 200 `ready` or 503 `not ready: REASON`. There is no password: whoever reaches the port reads
the figures, but no key and no client's name. `slotd_raft_` and `slotd_peer_` metrics are there on
nodes with a replicated table. A metric that has nothing to tell is left out.

```yaml
scrape_configs:
  - job_name: slotd
    static_configs:
      - targets: [\"10.0.0.1:9121\", \"10.0.0.2:9121\", \"10.0.0.3:9121\"]
```

Worth an alert: `slotd_ready == 0`; `slotd_raft_has_quorum == 0`; `slotd_slots_unassigned > 0`;
`max(slotd_table_version) - min(slotd_table_version)` that does not go back to 0;
`rate(slotd_moved_total[5m])` that stays up (`SLOTD STALE` names the client);
`slotd_peer_silence_seconds > 1`.

| metric | type | labels | meaning |
|---|---|---|---|
";

/// The manual's chapter on metrics, as markdown.
pub fn docs() -> String {
    let mut text = String::from(INTRODUCTION);
    for metric in ALL {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (metric.name, metric.kind.as_str(), labels.join(", "));
        let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {} |", metric.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manuals_chapter_is_what_the_declarations_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/manual/metrics.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, docs()).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == docs(), "metrics.md is old: run the tests with UPDATE_EXPECT=1");
    }
}
