//! INFO: the node in figures, in Redis's sections and fields.
//!
//! A field is there when slotd has the thing it counts, or when a tool needs it to say "no"
//! (`rdb_bgsave_in_progress:0`). Nothing here waits for a room.

mod sections;

pub(super) use sections::client_bytes;

use crate::command::flag::{LOADING, STALE};
use crate::command::{Args, Command, Group, Handler, NodeCx, NodeState, Now, Outcome};

/// The Redis version whose commands slotd speaks: what clients compare with.
pub const REDIS_VERSION: &str = "7.2.0";

/// INFO.
pub const COMMANDS: &[Command] = &[Command {
    name: "info",
    arity: -1,
    handler: Handler::Node(info),
    flags: LOADING | STALE | crate::command::flag::DANGEROUS,
    group: Group::Server,
    summary: "Returns information and statistics about the server.",
    ..Command::BASE
}];

/// One section of INFO.
struct Section {
    /// Lower case, as asked for.
    name: &'static str,
    title: &'static str,
    /// Shown when nothing is asked for?
    default: bool,
    write: fn(&mut String, &NodeState, Now),
}

const SECTIONS: &[Section] = &[
    Section { name: "server", title: "Server", default: true, write: sections::server },
    Section { name: "clients", title: "Clients", default: true, write: sections::clients },
    Section { name: "memory", title: "Memory", default: true, write: sections::memory },
    Section { name: "persistence", title: "Persistence", default: true, write: sections::disk },
    Section { name: "stats", title: "Stats", default: true, write: sections::stats },
    Section { name: "replication", title: "Replication", default: true, write: sections::roles },
    Section { name: "cpu", title: "CPU", default: true, write: sections::cpu },
    Section { name: "modules", title: "Modules", default: true, write: |_, _, _| {} },
    Section { name: "commandstats", title: "Commandstats", default: false, write: sections::calls },
    Section { name: "errorstats", title: "Errorstats", default: true, write: sections::errors },
    Section { name: "cluster", title: "Cluster", default: true, write: sections::cluster },
    Section { name: "keyspace", title: "Keyspace", default: true, write: sections::keyspace },
];

fn info(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let asks = |word: &str| args.from(1).any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let defaults = args.len() == 1 || asks("default");
    let all = asks("all") || asks("everything");
    let mut text = String::new();
    for section in SECTIONS {
        if all || (defaults && section.default) || asks(section.name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&format!("# {}\r\n", section.title));
            (section.write)(&mut text, cx.node, cx.now);
        }
    }
    cx.reply.verbatim("txt", text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::TestNode;

    /// A field of INFO with these sections asked for.
    fn field(node: &mut TestNode, section: &str, name: &str) -> Option<String> {
        let text = String::from_utf8(node.call(1, &[b"info", section.as_bytes()])).expect("ASCII");
        let line = text.split("\r\n").find_map(|l| l.strip_prefix(&format!("{name}:")));
        line.map(str::to_owned)
    }

    #[test]
    fn sections_come_as_asked_for_and_once() {
        let mut node = TestNode::new(&[]);
        let mut text = |words: &[&[u8]]| String::from_utf8(node.call(1, words)).expect("ASCII");
        let default = text(&[b"info"]);
        assert!(default.contains("\r\n\r\n# Clients\r\nconnected_clients:1\r\n"));
        assert!(!default.contains("# Commandstats"));
        let all = text(&[b"info", b"cpu", b"ALL"]);
        assert!(all.contains("# Commandstats\r\ncmdstat_info:calls=1,"));
        assert_eq!(all.matches("# CPU").count(), 1);
        assert_eq!(text(&[b"info", b"nothing"]), "$0\r\n\r\n");
    }

    #[test]
    fn counters_follow_commands_and_errors_and_go_back_to_zero() {
        let mut node = TestNode::new(&[]);
        node.call(1, &[b"set", b"k", b"v"]);
        node.call(1, &[b"get", b"k"]);
        node.call(1, &[b"get", b"none"]);
        node.call(1, &[b"get"]);
        node.call(1, &[b"nothing"]);
        let get = field(&mut node, "commandstats", "cmdstat_get").expect("called");
        assert!(get.starts_with("calls=2,"), "{get}");
        assert!(get.ends_with(",rejected_calls=1,failed_calls=0"), "{get}");
        assert_eq!(field(&mut node, "errorstats", "errorstat_ERR").as_deref(), Some("count=2"));
        assert_eq!(field(&mut node, "stats", "keyspace_hits").as_deref(), Some("1"));
        assert_eq!(field(&mut node, "stats", "keyspace_misses").as_deref(), Some("1"));
        assert_eq!(
            field(&mut node, "keyspace", "db0").as_deref(),
            Some("keys=1,expires=0,avg_ttl=0")
        );
        node.call(1, &[b"config", b"resetstat"]);
        assert_eq!(field(&mut node, "commandstats", "cmdstat_get"), None);
        assert_eq!(field(&mut node, "errorstats", "errorstat_ERR"), None);
        assert_eq!(field(&mut node, "stats", "keyspace_hits").as_deref(), Some("0"));
    }

    #[test]
    fn a_held_back_client_counts_as_blocked() {
        let mut node = TestNode::new(&[]);
        assert_eq!(field(&mut node, "clients", "blocked_clients").as_deref(), Some("0"));
        node.call(2, &[b"wait", b"1", b"100"]);
        assert_eq!(field(&mut node, "clients", "blocked_clients").as_deref(), Some("1"));
        node.advance(100);
        assert_eq!(node.resume(2), b":0\r\n");
        assert_eq!(field(&mut node, "clients", "blocked_clients").as_deref(), Some("0"));
    }

    #[test]
    fn resp3_gets_verbatim_text() {
        let mut node = TestNode::new(&[]);
        node.call(1, &[b"hello", b"3"]);
        assert!(node.call(1, &[b"info", b"cluster"]).starts_with(b"=60\r\ntxt:# Cluster\r\n"));
    }
}
