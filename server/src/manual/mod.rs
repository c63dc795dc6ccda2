//! The manual: chapters for those who run slotd and for those who change it. The pages are
//! markdown files beside this one, so they read well without rustdoc, too.
//!
//! Start with [`architecture`]. Not the reference of the code: that is each item's own comment.
//! Invariant: `options`, `commands` and `metrics` are made from the declarations, and the table
//! of limits in `invariants` names constants that exist, with the values they have (tests hold
//! both).

pub mod architecture {
    #![doc = include_str!("architecture.md")]
}
pub mod invariants {
    #![doc = include_str!("invariants.md")]
}
pub mod protocol_model {
    #![doc = include_str!("protocol-model.md")]
}
pub mod wire {
    #![doc = include_str!("wire.md")]
}
pub mod disk {
    #![doc = include_str!("disk.md")]
}
pub mod durability {
    #![doc = include_str!("durability.md")]
}
pub mod backup {
    #![doc = include_str!("backup.md")]
}
pub mod moves {
    #![doc = include_str!("moves.md")]
}
pub mod stream {
    #![doc = include_str!("stream.md")]
}
pub mod wire_nodes {
    #![doc = include_str!("wire-nodes.md")]
}
pub mod operating {
    #![doc = include_str!("operating.md")]
}
pub mod cluster {
    #![doc = include_str!("cluster.md")]
}
pub mod differences {
    #![doc = include_str!("differences.md")]
}
pub mod lost_writes {
    #![doc = include_str!("lost-writes.md")]
}
pub mod docker {
    #![doc = include_str!("docker.md")]
}
pub mod metrics {
    #![doc = include_str!("metrics.md")]
}
pub mod commands {
    #![doc = include_str!("commands.md")]
}
pub mod options {
    #![doc = include_str!("options.md")]
}

pub mod the_world {
    #![doc = include_str!("the-world.md")]
}

#[cfg(test)]
mod tests {
    /// Rows look like ``| `NAME` | `value as in the code` unit | `file` | why |``.
    fn limits() -> Vec<[String; 3]> {
        let quoted = |cell: &str| cell.split('`').nth(1).unwrap_or_default().to_owned();
        include_str!("invariants.md")
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.split('|').collect::<Vec<_>>())
            .filter(|cells| cells.len() == 6)
            .map(|cells| [quoted(cells[1]), quoted(cells[2]), quoted(cells[3])])
            .collect()
    }

    #[test]
    fn limits_in_the_manual_are_those_of_the_code() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let limits = limits();
        assert!(limits.len() > 40, "only {} limits were found", limits.len());
        for [name, value, file] in limits {
            let text = std::fs::read_to_string(format!("{root}/{file}"))
                .unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            let declared = format!("const {name}: ");
            let found = text.lines().filter_map(|line| line.split_once(&declared));
            let values: Vec<&str> = found
                .filter_map(|(_, rest)| rest.split_once(" = "))
                .map(|(_, value)| value.trim_end_matches(';'))
                .collect();
            assert_eq!(values, [value.as_str()], "{name} in {file}");
        }
    }

    #[test]
    fn pages_hold_no_code_that_would_be_run_as_rust() {
        for page in [
            include_str!("architecture.md"),
            include_str!("invariants.md"),
            include_str!("protocol-model.md"),
            include_str!("wire.md"),
            include_str!("disk.md"),
            include_str!("backup.md"),
            include_str!("stream.md"),
            include_str!("wire-nodes.md"),
            include_str!("operating.md"),
            include_str!("cluster.md"),
            include_str!("docker.md"),
            include_str!("metrics.md"),
            include_str!("differences.md"),
            include_str!("lost-writes.md"),
            include_str!("the-world.md"),
        ] {
            let fences: Vec<&str> = page.lines().filter(|line| line.starts_with("```")).collect();
            assert_eq!(fences.len() % 2, 0, "{page}");
            assert!(fences.iter().step_by(2).all(|fence| fence.len() > 3), "{fences:?}");
        }
    }
}
