//! Why a greeting or a link is refused: a number for programs and one line for people.
//!
//! Not the judging (`judge`). The text is written for the refused side and logged on both.
//! Invariant: a code keeps its number for ever; an unknown one is read as `Other`.

use std::fmt;

use slots::{Boot, ClusterId, NodeId, Nonce, StoreId};

use super::greeting::Versions;

/// Longest text of a refusal, bytes: two lines of a log.
pub const MAX_REFUSAL_TEXT_BYTES: usize = 512;

/// The number of a refusal on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u16)]
pub enum RefusalCode {
    /// A code of a later version.
    Other = 0,
    /// Bytes that are not the protocol.
    Broken = 1,
    /// No protocol version in common.
    Version = 2,
    /// The secrets differ, or one side has none.
    Secret = 3,
    /// Connected to itself.
    Myself = 4,
    /// Another data directory, or another process, uses the refuser's own id.
    IdInUse = 5,
    /// Another cluster.
    OtherCluster = 6,
    /// The refused belongs to an older generation.
    OldGeneration = 7,
    /// The refuser belongs to an older generation.
    NewGeneration = 8,
    /// The refuser's table does not hold the refused yet: try again.
    NotYet = 9,
    /// Not in the table.
    Unknown = 10,
    /// Removed from the table.
    Removed = 11,
    /// Another data directory than the table's.
    OtherStore = 12,
    /// A newer start of that node is known.
    Outdated = 13,
    /// Another process with the same boot number is known.
    Doubled = 14,
    /// There is a link to that node already.
    Duplicate = 15,
    /// Too many links.
    Busy = 16,
    /// The greeting took too long.
    Late = 17,
    /// The refuser stops or changes its cluster.
    Leaving = 18,
    /// The refuser is an older start of the refused one's own data directory.
    Superseded = 19,
}

impl RefusalCode {
    const ALL: [RefusalCode; 19] = [
        RefusalCode::Broken,
        RefusalCode::Version,
        RefusalCode::Secret,
        RefusalCode::Myself,
        RefusalCode::IdInUse,
        RefusalCode::OtherCluster,
        RefusalCode::OldGeneration,
        RefusalCode::NewGeneration,
        RefusalCode::NotYet,
        RefusalCode::Unknown,
        RefusalCode::Removed,
        RefusalCode::OtherStore,
        RefusalCode::Outdated,
        RefusalCode::Doubled,
        RefusalCode::Duplicate,
        RefusalCode::Busy,
        RefusalCode::Late,
        RefusalCode::Leaving,
        RefusalCode::Superseded,
    ];

    /// The code of this number.
    pub fn from_wire(number: u16) -> RefusalCode {
        let known = RefusalCode::ALL.into_iter().find(|code| *code as u16 == number);
        known.unwrap_or(RefusalCode::Other)
    }

    /// Part of normal life: no line in the log above debug.
    pub const fn is_quiet(self) -> bool {
        use RefusalCode::{Duplicate, Leaving, Myself, NotYet};
        matches!(self, Duplicate | NotYet | Myself | Leaving)
    }
}

/// Which side lacks the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretFault {
    /// The refuser has one, the refused has none.
    Missing,
    /// The other way round.
    Unexpected,
    /// Both have one, and they differ.
    Wrong,
}

/// A refusal with what was expected and what came. "You" is the refused node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Bytes that are not the protocol, with what is wrong with them.
    Broken(String),
    /// No version in common.
    Version {
        /// The refuser's.
        ours: Versions,
        /// The refused's.
        theirs: Versions,
    },
    /// See `SecretFault`.
    Secret(SecretFault),
    /// The refuser talks to itself.
    Myself,
    /// The refuser's own id under another data directory.
    IdInUse {
        /// The id.
        node: NodeId,
    },
    /// Another cluster; `None` is none.
    OtherCluster {
        /// The refuser's.
        ours: Option<ClusterId>,
        /// The refused's.
        theirs: Option<ClusterId>,
    },
    /// The refused's generation was given up.
    OldGeneration {
        /// The refuser's.
        ours: u64,
        /// The refused's.
        theirs: u64,
    },
    /// The refuser's generation was given up.
    NewGeneration {
        /// The refuser's.
        ours: u64,
        /// The refused's.
        theirs: u64,
    },
    /// The refuser's table is not there yet.
    NotYet {
        /// The refused.
        node: NodeId,
    },
    /// Not in the table.
    Unknown {
        /// The refused.
        node: NodeId,
    },
    /// Removed.
    Removed {
        /// The refused, by name.
        name: String,
    },
    /// Another data directory.
    OtherStore {
        /// The refused, by name.
        name: String,
        /// The table's.
        recorded: StoreId,
        /// What came.
        got: StoreId,
    },
    /// An older start.
    Outdated {
        /// The refused, by name.
        name: String,
        /// The newest known.
        recorded: Boot,
        /// What came.
        got: Boot,
    },
    /// Another process with the same boot number.
    Doubled {
        /// The refused, by name.
        name: String,
        /// The number both have.
        boot: Boot,
        /// That start's mark.
        nonce: Nonce,
    },
    /// There is a link.
    Duplicate,
    /// Too many links of strangers.
    Busy,
    /// The greeting took too long.
    Late,
    /// The refuser goes.
    Leaving,
    /// The refuser is an older start of the same data directory.
    Superseded {
        /// Both, by name.
        name: String,
        /// The refuser's.
        ours: Boot,
        /// The refused's.
        theirs: Boot,
    },
}

impl Refusal {
    /// Its number.
    pub const fn code(&self) -> RefusalCode {
        match self {
            Refusal::Broken(_) => RefusalCode::Broken,
            Refusal::Version { .. } => RefusalCode::Version,
            Refusal::Secret(_) => RefusalCode::Secret,
            Refusal::Myself => RefusalCode::Myself,
            Refusal::IdInUse { .. } => RefusalCode::IdInUse,
            Refusal::OtherCluster { .. } => RefusalCode::OtherCluster,
            Refusal::OldGeneration { .. } => RefusalCode::OldGeneration,
            Refusal::NewGeneration { .. } => RefusalCode::NewGeneration,
            Refusal::NotYet { .. } => RefusalCode::NotYet,
            Refusal::Unknown { .. } => RefusalCode::Unknown,
            Refusal::Removed { .. } => RefusalCode::Removed,
            Refusal::OtherStore { .. } => RefusalCode::OtherStore,
            Refusal::Outdated { .. } => RefusalCode::Outdated,
            Refusal::Doubled { .. } => RefusalCode::Doubled,
            Refusal::Duplicate => RefusalCode::Duplicate,
            Refusal::Busy => RefusalCode::Busy,
            Refusal::Late => RefusalCode::Late,
            Refusal::Leaving => RefusalCode::Leaving,
            Refusal::Superseded { .. } => RefusalCode::Superseded,
        }
    }

    /// What a program may need of it: the generation or boot that the refuser knows, or (`Doubled`)
    /// the nonce of the start that it knows, little-endian; else 0.
    pub const fn detail(&self) -> u64 {
        match self {
            Refusal::OldGeneration { ours, .. } | Refusal::NewGeneration { ours, .. } => *ours,
            Refusal::Outdated { recorded, .. } => recorded.0,
            Refusal::Doubled { nonce, .. } => u64::from_le_bytes(*nonce.bytes()),
            _ => 0,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Broken(what) => f.write_str(what),
            Refusal::Version { ours, theirs } => write!(
                f,
                "no protocol version in common: the refusing node speaks {ours}, the refused one \
                 {theirs}; upgrade the older node first (neighbouring releases understand each \
                 other)"
            ),
            Refusal::Secret(fault) => f.write_str(match fault {
                SecretFault::Missing => {
                    "the refusing node has a cluster-secret and the refused one has none; start \
                     it with the cluster's cluster-secret"
                }
                SecretFault::Unexpected => {
                    "the refused node has a cluster-secret and the refusing one has none; give \
                     all nodes the same cluster-secret"
                }
                SecretFault::Wrong => {
                    "the cluster-secret is wrong; give all nodes the same cluster-secret"
                }
            }),
            Refusal::Myself => f.write_str("a node connected to itself"),
            Refusal::IdInUse { node } => write!(
                f,
                "the id {node} is in use by another data directory; start the refused node with a \
                 new one (an empty dir makes a new id)"
            ),
            Refusal::OtherCluster { ours, theirs } => other_cluster(f, *ours, *theirs),
            Refusal::OldGeneration { ours, theirs } => write!(
                f,
                "this cluster was recovered at generation {ours}; the refused node belongs to an \
                 older one ({theirs}): wipe it and join again"
            ),
            Refusal::NewGeneration { ours, theirs } => write!(
                f,
                "the refused node belongs to generation {theirs} of the cluster, the refusing \
                 one to the older {ours}, which was given up: wipe that one and join again"
            ),
            other => other.about_the_node(f),
        }
    }
}

fn other_cluster(
    f: &mut fmt::Formatter<'_>,
    ours: Option<ClusterId>,
    theirs: Option<ClusterId>,
) -> fmt::Result {
    let text = |cluster: Option<ClusterId>| match cluster {
        Some(id) => format!("cluster {id}"),
        None => "no cluster".to_owned(),
    };
    write!(
        f,
        "the refusing node is in {}, the refused one in {}; nodes join by 'slotd --join' or \
         CLUSTER MEET",
        text(ours),
        text(theirs)
    )
}

impl Refusal {
    fn about_the_node(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotYet { node } => {
                write!(f, "the node {node} is not in the refusing node's table yet: try again")
            }
            Refusal::Unknown { node } => write!(
                f,
                "the node {node} is not in the cluster's table: it was removed, or never added; \
                 wipe it and join again"
            ),
            Refusal::Removed { name } => write!(
                f,
                "{name} was removed from the cluster; wipe its data directory and join again to \
                 bring it back"
            ),
            Refusal::OtherStore { name, recorded, got } => write!(
                f,
                "another data directory under a known id: {name} was added with store {recorded}, \
                 this is store {got}; if the old one is lost, run 'slotctl node lost {name}' and \
                 join this one as a new node"
            ),
            Refusal::Outdated { name, recorded, got } => write!(
                f,
                "boot {got} of {name} is older than boot {recorded}, which the cluster knows: \
                 this data directory is an old copy; start the newest one, or start a backup with \
                 --restored"
            ),
            Refusal::Doubled { name, boot, .. } => write!(
                f,
                "boot {boot} of {name} was taken by another start of its data directory: two \
                 copies run, or this one is older. Keep the newest and wipe the other; a backup \
                 is started with --restored yes"
            ),
            Refusal::Duplicate => f.write_str("there is a link between these nodes already"),
            Refusal::Busy => f.write_str("too many links of nodes that are no members: try later"),
            Refusal::Late => f.write_str("the greeting took too long"),
            Refusal::Leaving => f.write_str("the refusing node stops or changes its cluster"),
            Refusal::Superseded { name, ours, theirs } => write!(
                f,
                "the refusing process is boot {ours} of {name}, older than boot {theirs} of the \
                 refused one: stop it, its data directory is an old copy"
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back_from_the_wire() {
        for code in RefusalCode::ALL {
            assert_eq!(RefusalCode::from_wire(code as u16), code);
        }
        assert_eq!(RefusalCode::from_wire(999), RefusalCode::Other);
    }

    #[test]
    fn every_text_is_one_line_within_the_limit() {
        let (node, store) = (NodeId::from_bytes([7; 20]), StoreId::from_bytes([1; 16]));
        let cluster = Some(ClusterId::from_bytes([3; 20]));
        let name = "n".repeat(slots::MAX_NAME_BYTES);
        let versions = Versions { min: 1, max: 2 };
        let all = [
            Refusal::Broken("a frame".to_owned()),
            Refusal::Version { ours: versions, theirs: versions },
            Refusal::Secret(SecretFault::Missing),
            Refusal::Secret(SecretFault::Unexpected),
            Refusal::Secret(SecretFault::Wrong),
            Refusal::Myself,
            Refusal::IdInUse { node },
            Refusal::OtherCluster { ours: cluster, theirs: None },
            Refusal::OldGeneration { ours: 2, theirs: 1 },
            Refusal::NewGeneration { ours: 1, theirs: 2 },
            Refusal::NotYet { node },
            Refusal::Unknown { node },
            Refusal::Removed { name: name.clone() },
            Refusal::OtherStore { name: name.clone(), recorded: store, got: store },
            Refusal::Outdated { name: name.clone(), recorded: Boot(9), got: Boot(8) },
            Refusal::Doubled {
                name: name.clone(),
                boot: Boot(9),
                nonce: Nonce::from_bytes([7; 8]),
            },
            Refusal::Superseded { name, ours: Boot(8), theirs: Boot(9) },
            Refusal::Duplicate,
            Refusal::Busy,
            Refusal::Late,
            Refusal::Leaving,
        ];
        for refusal in &all {
            let text = refusal.to_string();
            assert!((5..=MAX_REFUSAL_TEXT_BYTES).contains(&text.len()), "{text}");
            assert!(text.bytes().all(|b| b.is_ascii_graphic() || b == b' '), "{text}");
        }
        let mut codes: Vec<_> = all.iter().map(Refusal::code).collect();
        codes.dedup();
        assert_eq!(codes.len(), RefusalCode::ALL.len(), "a code without a text here");
    }
}
