//! A node as the table knows it: identity, addresses by audience, labels, weight, state.
//!
//! Not a running node, and not its health: nothing here knows whether it can be reached.
//!
//! Invariant: texts are within the limits below and free of blanks and control characters, so
//! they can stand in CLUSTER NODES, in MOVED and in a log line as they are.

use crate::ids::{Boot, NodeId, Nonce, StoreId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Longest node name, in bytes: it stands in tables and log lines.
pub const MAX_NAME_BYTES: usize = 64;
/// Longest host or hostname, in bytes: the limit of DNS.
pub const MAX_HOST_BYTES: usize = 255;
/// Longest label key, in bytes: as names.
pub const MAX_LABEL_KEY_BYTES: usize = 64;
/// Longest label value, in bytes: a host name fits.
pub const MAX_LABEL_VALUE_BYTES: usize = 255;
/// Most labels of a node: host, rack, zone and a dozen of the operator's own.
pub const MAX_LABELS: usize = 16;
/// Weight of a node nobody weighed. Twice the weight asks for twice the slots.
pub const DEFAULT_WEIGHT: u32 = 100;
/// Heaviest node: keeps sums of weights of `MAX_NODES` nodes far from overflow.
pub const MAX_WEIGHT: u32 = 1_000_000;

/// Host and port. The host may be empty: "the host you reached me at".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// IP address or name, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Endpoint {
    /// The endpoint of this host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Endpoint {
        Endpoint { host: host.into(), port }
    }
}

/// `host:port` as Redis writes it: no brackets, the last colon separates.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A text that is no `host:port`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadEndpoint;

impl fmt::Display for BadEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address is HOST:PORT with a port of 1-65535")
    }
}

impl std::error::Error for BadEndpoint {}

/// Splits at the last colon, so IPv6 needs no brackets; `[::1]:7001` is understood too. Refuses a
/// missing or bad port, port 0, and hosts with blanks or longer than `MAX_HOST_BYTES`.
impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Endpoint, BadEndpoint> {
        let (host, port) = split_endpoint(text).ok_or(BadEndpoint)?;
        Ok(Endpoint::new(host, port))
    }
}

/// Host (brackets taken off, may be empty) and port of `host:port`.
pub(crate) fn split_endpoint(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    check_text(TextField::Host, bare).ok()?;
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse().ok().filter(|&port: &u16| digits && port != 0)?;
    Some((bare, port))
}

/// Which of a node's names plain clients are told, as `cluster-preferred-endpoint-type` says. It
/// is a setting of the node that answers, not of the node answered about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum EndpointKind {
    /// The announced IP address.
    #[default]
    Ip,
    /// The announced hostname; `?` where a node has none.
    Hostname,
    /// No host at all: clients use the one they are connected to.
    Unknown,
}

impl EndpointKind {
    /// The directive's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            EndpointKind::Ip => "ip",
            EndpointKind::Hostname => "hostname",
            EndpointKind::Unknown => "unknown-endpoint",
        }
    }

    /// The kind of a directive's word, in any case.
    pub fn from_word(word: &str) -> Option<EndpointKind> {
        let kinds = [EndpointKind::Ip, EndpointKind::Hostname, EndpointKind::Unknown];
        kinds.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(word))
    }
}

/// Where a node is reached, by who asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Addresses {
    /// For clients: stands in MOVED, CLUSTER SLOTS, SHARDS and NODES.
    pub client: Endpoint,
    /// For other nodes. Its host may differ (NAT, Docker); its port is the one after `@` in
    /// CLUSTER NODES.
    pub bus: Endpoint,
    /// The announced hostname, if any.
    pub hostname: Option<String>,
}

impl Addresses {
    /// The host clients are told: possibly empty ("the one you are connected to") or `?`
    /// ("unknown, do not connect").
    pub fn client_host(&self, preferred: EndpointKind) -> &str {
        match preferred {
            EndpointKind::Ip => &self.client.host,
            EndpointKind::Hostname => self.hostname.as_deref().unwrap_or("?"),
            EndpointKind::Unknown => "",
        }
    }

    pub(crate) fn check(&self) -> Result<(), BadText> {
        check_text(TextField::Host, &self.client.host)?;
        check_text(TextField::Host, &self.bus.host)?;
        self.hostname.as_deref().map_or(Ok(()), |name| check_text(TextField::Hostname, name))
    }
}

/// What may be asked of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum NodeState {
    /// Takes slots and followers' roles.
    Active,
    /// Keeps what it has and gets nothing new.
    Draining,
    /// Gone; the row is its tombstone, so that removing it again is no error.
    Removed,
}

/// Labels by key: `host`, `rack`, `zone` and the operator's own.
pub type Labels = BTreeMap<String, String>;

/// A node's row in the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRow {
    /// The node's id for life.
    pub id: NodeId,
    /// The name people use; one of a kind among the nodes that are not removed.
    pub name: String,
    /// The data directory it was added with.
    pub store: StoreId,
    /// Its last recorded start; 0 before the first.
    pub boot: Boot,
    /// The nonce of that start; `None` before the first.
    pub nonce: Option<Nonce>,
    /// Where it is reached.
    pub addresses: Addresses,
    /// What the operator says of it.
    pub labels: Labels,
    /// Its share of the slots, relative to the others'.
    pub weight: u32,
    /// What may be asked of it.
    pub state: NodeState,
}

/// Which text of a node's row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum TextField {
    /// Its name: not empty, letters, digits and `._-`, and no 40 hex characters, which are an id.
    Name,
    /// A host: empty, an IP address or a name.
    Host,
    /// An announced hostname: not empty, letters, digits, `.` and `-`.
    Hostname,
    /// A label's key: as a name.
    LabelKey,
    /// A label's value: printable ASCII without blanks, may be empty.
    LabelValue,
}

impl TextField {
    const fn limit_bytes(self) -> usize {
        match self {
            TextField::Name => MAX_NAME_BYTES,
            TextField::Host | TextField::Hostname => MAX_HOST_BYTES,
            TextField::LabelKey => MAX_LABEL_KEY_BYTES,
            TextField::LabelValue => MAX_LABEL_VALUE_BYTES,
        }
    }

    fn allows(self, byte: u8) -> bool {
        match self {
            TextField::Name | TextField::LabelKey => {
                byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
            }
            TextField::Hostname => byte.is_ascii_alphanumeric() || b".-".contains(&byte),
            // What splits a line of CLUSTER NODES must not stand in a host.
            TextField::Host => byte.is_ascii_graphic() && !b",@?[]=".contains(&byte),
            TextField::LabelValue => byte.is_ascii_graphic(),
        }
    }
}

/// A text of a row that is empty where it must not be, too long, or has a character that would
/// break the lines it stands in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct BadText {
    /// Which text.
    pub field: TextField,
}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.field.limit_bytes();
        match self.field {
            TextField::Name => {
                write!(f, "a node name is 1-{limit} letters, digits, '.', '_' or '-', and no id")
            }
            TextField::Host => {
                write!(f, "a host is an IP address or a name of up to {limit} bytes")
            }
            TextField::Hostname => {
                write!(f, "a hostname is 1-{limit} letters, digits, '.' or '-'")
            }
            TextField::LabelKey => {
                write!(f, "a label's key is 1-{limit} letters, digits, '.', '_' or '-'")
            }
            TextField::LabelValue => {
                write!(f, "a label's value is up to {limit} printable characters, no blanks")
            }
        }
    }
}

impl std::error::Error for BadText {}

/// Refuses, in this order: too long, empty where it must not be, a character out of place, a name
/// that is an id.
pub(crate) fn check_text(field: TextField, text: &str) -> Result<(), BadText> {
    let may_be_empty = matches!(field, TextField::Host | TextField::LabelValue);
    let fits = text.len() <= field.limit_bytes() && (may_be_empty || !text.is_empty());
    let is_id = field == TextField::Name && text.parse::<NodeId>().is_ok();
    if fits && !is_id && text.bytes().all(|byte| field.allows(byte)) {
        Ok(())
    } else {
        Err(BadText { field })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_split_at_the_last_colon() {
        for (text, host, port) in [
            ("10.9.8.7:7777", "10.9.8.7", 7777),
            ("::1:7001", "::1", 7001),
            ("[::1]:7001", "::1", 7001),
            (":7777", "", 7777),
            ("node-a.example:1", "node-a.example", 1),
        ] {
            assert_eq!(text.parse(), Ok(Endpoint::new(host, port)), "{text}");
        }
        assert_eq!(Endpoint::new("::1", 7001).to_string(), "::1:7001");
        for bad in ["", "host", "host:", "host:0", "host:65536", "host:+1", "a b:1", "a,b:1"] {
            assert_eq!(bad.parse::<Endpoint>(), Err(BadEndpoint), "{bad}");
        }
    }

    #[test]
    fn audience_picks_the_host() {
        let mut addresses = Addresses {
            client: Endpoint::new("10.9.8.7", 7777),
            bus: Endpoint::new("172.17.0.2", 17_777),
            hostname: None,
        };
        assert_eq!(addresses.client_host(EndpointKind::Ip), "10.9.8.7");
        assert_eq!(addresses.client_host(EndpointKind::Unknown), "");
        assert_eq!(addresses.client_host(EndpointKind::Hostname), "?");
        addresses.hostname = Some("a.example".to_owned());
        assert_eq!(addresses.client_host(EndpointKind::Hostname), "a.example");
        assert_eq!(addresses.check(), Ok(()));
        addresses.hostname = Some(String::new());
        assert_eq!(addresses.check(), Err(BadText { field: TextField::Hostname }));
        assert_eq!(EndpointKind::from_word("HostName"), Some(EndpointKind::Hostname));
        assert_eq!(EndpointKind::from_word("dns"), None);
    }

    #[test]
    fn texts_keep_within_their_fields() {
        let check = |field, text: &str| check_text(field, text).is_ok();
        assert!(check(TextField::Name, "node-a"));
        assert!(!check(TextField::Name, ""));
        assert!(!check(TextField::Name, "a b"));
        assert!(!check(TextField::Name, "a:1"));
        assert!(!check(TextField::Name, "07c37dfeb235213a872192d90877d0cd55635b91"));
        assert!(check(TextField::Name, &"n".repeat(MAX_NAME_BYTES)));
        assert!(!check(TextField::Name, &"n".repeat(MAX_NAME_BYTES + 1)));
        assert!(check(TextField::Host, "fe80::1%eth0"));
        assert!(!check(TextField::Host, "?"));
        assert!(!check(TextField::Host, "a@b"));
        assert!(check(TextField::LabelValue, ""));
        assert!(!check(TextField::LabelValue, "a\n"));
    }
}
