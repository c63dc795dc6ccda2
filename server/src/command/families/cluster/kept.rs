//! Replies to CLUSTER SLOTS, SHARDS and NODES that are kept: they may be thousands of lines and
//! are asked for by every client at once after a change.
//!
//! Invariant: a kept reply is given only while all it was made of is as it was: the very table
//! that MOVED names owners from, who this node is in it, whom it speaks to, and its links.

use std::sync::Arc;

use parking_lot::Mutex;
use slots::EndpointKind;

use super::links::Links;
use crate::command::{NodeCx, Topology};
use crate::resp::{Proto, Reply};

/// The last replies, one for each command and protocol.
#[derive(Default)]
pub struct TopologyReplies {
    pub(super) slots: Place,
    pub(super) shards: Place,
    pub(super) nodes: Place,
}

/// The last replies to one command, one for each protocol.
#[derive(Default)]
pub(super) struct Place([Mutex<Option<Kept>>; 2]);

struct Kept {
    made_of: Made,
    bytes: Arc<[u8]>,
}

/// All that a reply is made of, besides the protocol.
pub(super) struct Made {
    /// Table, identity and standing.
    pub topology: Topology,
    /// Which names clients are told.
    pub endpoint: EndpointKind,
    /// The links to the other nodes; none where the reply does not tell of them.
    pub links: Links,
}

impl Made {
    /// With what this node goes by now.
    pub fn now(cx: &NodeCx<'_>, links: Links) -> Made {
        Made { topology: cx.node.topology(), endpoint: cx.node.endpoint_kind(), links }
    }

    /// Version numbers are not enough: a node that leaves its cluster begins with a new table.
    fn is_as(&self, other: &Made) -> bool {
        let (a, b) = (&self.topology, &other.topology);
        Arc::ptr_eq(&a.table, &b.table)
            && (a.me, a.standing) == (b.me, b.standing)
            && (self.endpoint, &self.links) == (other.endpoint, &other.links)
    }
}

/// Writes the kept reply if it is still right, else makes and keeps it.
pub(super) fn write(
    cx: &mut NodeCx<'_>,
    place: &Place,
    made_of: Made,
    make: fn(&Made, &mut Reply<'_>),
) {
    let Place([resp2, resp3]) = place;
    let place = if cx.reply.proto == Proto::Resp3 { resp3 } else { resp2 };
    let kept = place.lock().as_ref().filter(|k| k.made_of.is_as(&made_of)).map(|k| k.bytes.clone());
    if let Some(bytes) = kept {
        cx.reply.out.extend_from_slice(&bytes);
        return;
    }
    let start = cx.reply.out.len();
    make(&made_of, &mut cx.reply);
    let bytes = Arc::from(&cx.reply.out[start..]);
    *place.lock() = Some(Kept { made_of, bytes });
}
