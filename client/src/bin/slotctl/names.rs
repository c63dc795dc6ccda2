//! Which node the operator means: by name, by id, by the beginning of an id, by HOST:PORT.
//!
//! Not the asking for the list of nodes. Invariant: a text that could mean two nodes means none.

use std::fmt;

use slots::NodeId;
use slots::admin::NodeStatus;

/// Fewest characters of an id that stand for all of it: fewer are too often a typing error.
const MIN_PREFIX_CHARS: usize = 4;
/// Most names that an error lists: a line has an end.
const MAX_LISTED_NAMES: usize = 12;

/// A node that was named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// Its id.
    pub(crate) id: NodeId,
    /// Its name; its id where it has none.
    pub(crate) name: String,
}

/// A text that names no node, or several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NameError {
    /// None.
    Unknown {
        /// The text.
        text: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Several.
    Ambiguous {
        /// The text.
        text: String,
        /// Name and id of those it could mean.
        fits: Vec<String>,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Unknown { text, known } => {
                write!(f, "node '{}' is not known: ", text.escape_debug())?;
                let listed = &known[..known.len().min(MAX_LISTED_NAMES)];
                write!(f, "the cluster has {}", listed.join(", "))?;
                let more = known.len() - listed.len();
                if more > 0 {
                    write!(f, " and {more} more (`slotctl nodes` lists them)")?;
                }
                Ok(())
            }
            NameError::Ambiguous { text, fits } => {
                let text = text.escape_debug();
                write!(f, "node '{text}' is ambiguous: it could be {}", fits.join(" or "))
            }
        }
    }
}

impl std::error::Error for NameError {}

/// The node that `text` means among `nodes`. A whole name goes before the beginning of an id.
pub(crate) fn resolve(nodes: &[NodeStatus], text: &str) -> Result<Target, NameError> {
    let ways: [fn(&NodeStatus, &str) -> bool; 4] = [by_name, by_id, by_address, by_prefix];
    for fits in ways {
        let found: Vec<Target> =
            nodes.iter().filter(|node| fits(node, text)).filter_map(target).collect();
        match <[Target; 1]>::try_from(found) {
            Ok([target]) => return Ok(target),
            Err(found) if found.is_empty() => {}
            Err(found) => {
                let fits = found.iter().map(|one| format!("{} ({})", one.name, one.id)).collect();
                return Err(NameError::Ambiguous { text: text.to_owned(), fits });
            }
        }
    }
    let known = nodes.iter().filter_map(target).map(|node| node.name).collect();
    Err(NameError::Unknown { text: text.to_owned(), known })
}

/// The node of a row; `None` if its id is none.
pub(crate) fn target(node: &NodeStatus) -> Option<Target> {
    let id: NodeId = node.id.parse().ok()?;
    Some(Target { id, name: shown(node).to_owned() })
}

/// What people call the node.
pub(crate) fn shown(node: &NodeStatus) -> &str {
    if node.name.is_empty() { &node.id } else { &node.name }
}

/// What people call the node of this id, as far as `nodes` knows it.
pub(crate) fn name_of<'a>(nodes: &'a [NodeStatus], id: &'a str) -> &'a str {
    nodes.iter().find(|node| node.id == id).map_or(id, shown)
}

fn by_name(node: &NodeStatus, text: &str) -> bool {
    !text.is_empty() && node.name == text
}

fn by_id(node: &NodeStatus, text: &str) -> bool {
    node.id.eq_ignore_ascii_case(text)
}

fn by_address(node: &NodeStatus, text: &str) -> bool {
    let port = node.client.rsplit_once(':').map_or("", |(_, port)| port);
    let by_hostname = node.hostname.as_deref().is_some_and(|host| text == format!("{host}:{port}"));
    text.contains(':') && (node.client == text || node.bus == text || by_hostname)
}

fn by_prefix(node: &NodeStatus, text: &str) -> bool {
    let (id, text) = (node.id.to_ascii_lowercase(), text.to_ascii_lowercase());
    text.len() >= MIN_PREFIX_CHARS && id.starts_with(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, id: &str, port: u16) -> NodeStatus {
        NodeStatus {
            id: format!("{id:0<40}"),
            name: name.into(),
            client: format!("10.0.0.1:{port}"),
            bus: format!("10.0.0.1:{}", port + 10_000),
            hostname: Some(format!("{name}.example")),
            ..NodeStatus::default()
        }
    }

    fn nodes() -> Vec<NodeStatus> {
        vec![
            node("node-a", "07c37d", 7001),
            node("node-b", "07c3aa", 7002),
            node("cafe", "1234", 7003),
            node("", "cafe5678", 7004),
        ]
    }

    fn found(text: &str) -> String {
        resolve(&nodes(), text).map_or_else(|error| error.to_string(), |target| target.name)
    }

    #[test]
    fn a_node_has_four_kinds_of_names() {
        assert_eq!(found("node-a"), "node-a");
        assert_eq!(found(&format!("{:0<40}", "07C3aa")), "node-b");
        assert_eq!(found("10.0.0.1:7002"), "node-b");
        assert_eq!(found("10.0.0.1:17002"), "node-b");
        assert_eq!(found("node-b.example:7002"), "node-b");
        assert_eq!(found("07c37"), "node-a");
    }

    #[test]
    fn a_whole_name_goes_before_the_beginning_of_an_id() {
        assert_eq!(found("cafe"), "cafe");
        assert_eq!(found("cafe5"), format!("{:0<40}", "cafe5678"));
    }

    #[test]
    fn a_text_that_could_mean_two_means_none() {
        let text = found("07c3");
        assert!(text.starts_with("node '07c3' is ambiguous: it could be node-a (07c37d"), "{text}");
        let mut twice = nodes();
        twice[1].client = twice[0].client.clone();
        let error = resolve(&twice, "10.0.0.1:7001").expect_err("two nodes");
        assert!(error.to_string().contains("node-a") && error.to_string().contains("node-b"));
    }

    #[test]
    fn unknown_nodes_are_refused_with_the_known_ones() {
        let text = found("node-x");
        assert!(text.starts_with("node 'node-x' is not known: the cluster has node-a, node-b"));
        for unknown in ["", "NODE-A", "07c", "7001", ":7001", "node-a "] {
            assert!(found(unknown).contains("is not known"), "{unknown}");
        }
    }

    #[test]
    fn a_thousand_nodes_are_not_listed() {
        let many: Vec<_> = (0..1000).map(|n| node(&format!("n{n}"), &format!("{n}"), 1)).collect();
        let text = resolve(&many, "x").expect_err("unknown").to_string();
        assert!(text.ends_with("and 988 more (`slotctl nodes` lists them)"), "{text}");
        assert!(text.len() < 200, "{text}");
    }
}
