//! What slotctl asks of a node: each question and order, and the words it is sent as.
//!
//! Not the sending. Invariant: a request that may be sent again elsewhere after its answer got
//! lost does no more the second time than the first.

use slots::{MoveId, NodeId, SlotRanges};

/// A question or an order to one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// The cluster as the node sees it.
    Status,
    /// All rows of the table.
    Slots,
    /// The newest changes.
    History {
        /// How many, at most.
        count: u32,
    },
    /// Where a key lives.
    Explain {
        /// The key.
        key: Vec<u8>,
    },
    /// Who asked the node for slots of others.
    Stale {
        /// Keep counting, or begin anew?
        counters: Counters,
    },
    /// What the node has to back up.
    BackupSlots,
    /// The moves under way, and how far the node is with what it gives away.
    Moves,
    /// A change.
    Order(Order),
}

/// What becomes of counters that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counters {
    /// They go on.
    Keep,
    /// They begin at zero again.
    Reset,
}

/// A change of the cluster. Nodes are given by id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Take a node in.
    Add {
        /// `host:port`, or `host:port@busport`.
        address: String,
    },
    /// Let a node go.
    Remove(NodeId),
    /// Give a node another name.
    Rename(NodeId, String),
    /// Set a label, or take it away.
    Label(NodeId, String, Option<String>),
    /// Nothing new for this node.
    Drain(NodeId),
    /// It takes slots again.
    Undrain(NodeId),
    /// Its share of the slots.
    Weight(NodeId, u32),
    /// It will not come back.
    Lost(NodeId, Loss),
    /// Another node votes in its place.
    ReplaceVoter(NodeId, Option<NodeId>),
    /// Slots of nobody get an owner.
    Assign {
        /// Which.
        slots: SlotRanges,
        /// Whose they become.
        node: NodeId,
        /// The table version this was decided at.
        seen: u64,
    },
    /// Slots go over to a node.
    Move {
        /// Which.
        slots: SlotRanges,
        /// Where they go.
        to: NodeId,
        /// May the target keep writes less safe?
        safety: Safety,
    },
    /// A move ends where it is.
    Cancel(MoveId),
    /// The node begins a new generation of the cluster with what it knows.
    Recover {
        /// The cluster it must be of.
        cluster: String,
    },
}

/// May acknowledged writes be given up?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// No.
    Refused,
    /// The operator says so.
    Accepted,
}

/// How safe the target of a move must keep writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Safety {
    /// As safe as the source.
    Kept,
    /// Less will do.
    MayWeaken,
}

/// What to do when a node gives no answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    /// Any node may be asked the same again.
    Elsewhere,
    /// Another node may be asked if this one was never reached; if the answer got lost, who
    /// decided must look again first.
    IfUnsent,
    /// It was meant for this node only.
    Never,
}

impl Request {
    /// Whether it changes something.
    pub(crate) const fn is_order(&self) -> bool {
        matches!(self, Request::Order(_))
    }

    /// What to do when there is no answer.
    pub(crate) const fn retry(&self) -> Retry {
        match self {
            // Carried out already, the same `seen` would be refused: that is no answer.
            Request::Order(Order::Assign { .. } | Order::Move { .. } | Order::Cancel(_)) => {
                Retry::IfUnsent
            }
            Request::Order(Order::Recover { .. }) => Retry::Never,
            _ => Retry::Elsewhere,
        }
    }

    /// The words of the command.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let text: Vec<String> = match self {
            Request::Status => vec!["STATUS".into()],
            Request::Slots => vec!["SLOTS".into()],
            Request::History { count } => {
                vec!["HISTORY".into(), "COUNT".into(), count.to_string()]
            }
            Request::Explain { key } => {
                return vec![b"SLOTD".to_vec(), b"EXPLAIN".to_vec(), key.clone()];
            }
            Request::Stale { counters: Counters::Keep } => vec!["STALE".into()],
            Request::Stale { counters: Counters::Reset } => vec!["STALE".into(), "RESET".into()],
            Request::BackupSlots => vec!["BACKUP".into(), "SLOTS".into()],
            Request::Moves => vec!["MOVES".into()],
            Request::Order(order) => order.words(),
        };
        std::iter::once("SLOTD".to_owned()).chain(text).map(String::into_bytes).collect()
    }
}

impl Order {
    fn words(&self) -> Vec<String> {
        let node = |verb: &str, rest: Vec<String>| {
            [vec!["NODE".to_owned(), verb.to_owned()], rest].concat()
        };
        match self {
            Order::Add { address } => node("ADD", vec![address.clone()]),
            Order::Remove(id) => node("REMOVE", vec![id.to_string()]),
            Order::Rename(id, name) => node("RENAME", vec![id.to_string(), name.clone()]),
            Order::Label(id, key, value) => {
                let mut rest = vec![id.to_string(), key.clone()];
                rest.extend(value.clone());
                node("LABEL", rest)
            }
            Order::Drain(id) => node("DRAIN", vec![id.to_string()]),
            Order::Undrain(id) => node("UNDRAIN", vec![id.to_string()]),
            Order::Weight(id, weight) => node("WEIGHT", vec![id.to_string(), weight.to_string()]),
            Order::Lost(id, Loss::Refused) => node("LOST", vec![id.to_string()]),
            Order::Lost(id, Loss::Accepted) => {
                node("LOST", vec![id.to_string(), "ACCEPT-LOSS".into()])
            }
            Order::ReplaceVoter(old, new) => {
                let mut rest = vec![old.to_string()];
                rest.extend(new.map(|id| id.to_string()));
                node("REPLACE-VOTER", rest)
            }
            Order::Assign { slots, node, seen } => {
                let (slots, node) = (slots.to_string(), node.to_string());
                vec!["ASSIGN".into(), slots, node, "SEEN".into(), seen.to_string()]
            }
            Order::Move { slots, to, safety } => {
                let mut words = vec!["MOVE".into(), slots.to_string(), to.to_string()];
                words.extend((*safety == Safety::MayWeaken).then(|| "ALLOW-WEAKER".to_owned()));
                words
            }
            Order::Cancel(id) => vec!["CANCEL".into(), id.to_string()],
            Order::Recover { cluster } => vec!["RECOVER".into(), cluster.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: Request, words: &str) {
        let sent = request.words().join(&b' ');
        assert_eq!(String::from_utf8_lossy(&sent), words);
    }

    fn order(order: Order, words: &str) {
        check(Request::Order(order), words);
    }

    #[test]
    fn questions_have_their_words() {
        check(Request::Status, "SLOTD STATUS");
        check(Request::Slots, "SLOTD SLOTS");
        check(Request::History { count: 20 }, "SLOTD HISTORY COUNT 20");
        check(Request::Explain { key: b"{a}b".to_vec() }, "SLOTD EXPLAIN {a}b");
        check(Request::Stale { counters: Counters::Keep }, "SLOTD STALE");
        check(Request::Stale { counters: Counters::Reset }, "SLOTD STALE RESET");
        check(Request::BackupSlots, "SLOTD BACKUP SLOTS");
        check(Request::Moves, "SLOTD MOVES");
    }

    #[test]
    fn a_key_with_blanks_is_one_word() {
        let words = Request::Explain { key: b"a b".to_vec() }.words();
        assert_eq!(words, [b"SLOTD".to_vec(), b"EXPLAIN".to_vec(), b"a b".to_vec()]);
    }

    #[test]
    fn orders_have_their_words() {
        let id = NodeId::from_bytes([0xab; 20]);
        let hex = "ab".repeat(20);
        order(Order::Add { address: "h:1@2".into() }, "SLOTD NODE ADD h:1@2");
        order(Order::Remove(id), &format!("SLOTD NODE REMOVE {hex}"));
        order(Order::Rename(id, "b".into()), &format!("SLOTD NODE RENAME {hex} b"));
        let label = |value| Order::Label(id, "zone".into(), value);
        order(label(Some("x".into())), &format!("SLOTD NODE LABEL {hex} zone x"));
        order(label(None), &format!("SLOTD NODE LABEL {hex} zone"));
        order(Order::Drain(id), &format!("SLOTD NODE DRAIN {hex}"));
        order(Order::Undrain(id), &format!("SLOTD NODE UNDRAIN {hex}"));
        order(Order::Weight(id, 50), &format!("SLOTD NODE WEIGHT {hex} 50"));
        order(Order::Lost(id, Loss::Refused), &format!("SLOTD NODE LOST {hex}"));
        order(Order::Lost(id, Loss::Accepted), &format!("SLOTD NODE LOST {hex} ACCEPT-LOSS"));
        order(Order::ReplaceVoter(id, None), &format!("SLOTD NODE REPLACE-VOTER {hex}"));
        let both = Order::ReplaceVoter(id, Some(id));
        order(both, &format!("SLOTD NODE REPLACE-VOTER {hex} {hex}"));
        let slots = "0-5,9".parse().expect("slots");
        let assign = Order::Assign { slots, node: id, seen: 7 };
        order(assign, &format!("SLOTD ASSIGN 0-5,9 {hex} SEEN 7"));
        let order_of = |safety| Order::Move { slots: SlotRanges::all(), to: id, safety };
        order(order_of(Safety::Kept), &format!("SLOTD MOVE 0-16383 {hex}"));
        order(order_of(Safety::MayWeaken), &format!("SLOTD MOVE 0-16383 {hex} ALLOW-WEAKER"));
        order(Order::Cancel(MoveId::from_bytes([0xcd; 8])), "SLOTD CANCEL cdcdcdcdcdcdcdcd");
        order(Order::Recover { cluster: "c1".into() }, "SLOTD RECOVER c1");
    }

    #[test]
    fn what_would_be_refused_the_second_time_is_not_repeated_blindly() {
        assert_eq!(Request::Status.retry(), Retry::Elsewhere);
        let id = NodeId::from_bytes([1; 20]);
        assert_eq!(Request::Order(Order::Remove(id)).retry(), Retry::Elsewhere);
        let assign = Order::Assign { slots: SlotRanges::all(), node: id, seen: 1 };
        assert_eq!(Request::Order(assign).retry(), Retry::IfUnsent);
        let cancel = Order::Cancel(MoveId::from_bytes([1; 8]));
        assert_eq!(Request::Order(cancel).retry(), Retry::IfUnsent);
        let recover = Order::Recover { cluster: String::new() };
        assert_eq!(Request::Order(recover).retry(), Retry::Never);
    }
}
