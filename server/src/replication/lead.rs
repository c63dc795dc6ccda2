//! What the owner of a slot keeps of the slot's other copies, in one epoch.
//!
//! ```text
//!             count            acked what was there        applied
//!   Outside ---------> Counted ----------> (Grow wanted) ---------> InSync
//!      ^                  |                                            |
//!      |  applied         | let_go                       let_go        |
//!      +------------- Leaving <----------------------------------------+
//! ```
//! Not the copy itself, and not who proposes: `wants` says what is to be proposed, again and
//! unchanged until the table answers (R5). Invariant (R4): who counts grows by the owner's own
//! decision, and shrinks only when the table's `ver` moves.

use std::time::Duration;

use slots::{
    AckMode, Boot, Epoch, NodeId, OpIndex, SlotId, SlotRanges, SlotTable, TableChange, TableVersion,
};

/// Silence of a member that counts after which new writes are refused and it is let go
/// (PROTOCOL 3): several round trips and a sync, far below what a client waits.
pub const SILENCE_MAX: Duration = Duration::from_millis(1000);

/// What the table says of a slot that this node owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Of the slot.
    pub epoch: Epoch,
    /// Of the slot.
    pub ver: TableVersion,
    /// Of the table: what is proposed now was decided at this one.
    pub version: TableVersion,
    /// Do followers count?
    pub ack: AckMode,
    /// Whom the slot's stream goes to: members in sync, followers, the target of a move; not this
    /// node.
    pub peers: Vec<Peer>,
}

/// Another node that has, or is to have, a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Who.
    pub node: NodeId,
    /// By the table.
    pub boot: Boot,
    /// In sync by the table.
    pub is_in_sync: bool,
    /// A move brings the slot to it.
    pub is_target: bool,
}

impl Terms {
    /// What a table says of a slot; `None` if `own` is not its owner.
    pub fn of(table: &SlotTable, slot: SlotId, own: NodeId) -> Option<Terms> {
        let row = table.slot(slot);
        if row.owner() != Some(own) {
            return None;
        }
        let target = row.planned_move().map(|planned| planned.to);
        let mut nodes: Vec<NodeId> = row.in_sync().chain(row.followers()).chain(target).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let peer = |node| {
            let boot = table.node(node)?.boot;
            let (is_in_sync, is_target) = (row.is_in_sync(node), target == Some(node));
            Some(Peer { node, boot, is_in_sync, is_target })
        };
        Some(Terms {
            epoch: row.epoch(),
            ver: row.ver(),
            version: table.version(),
            ack: row.ack(),
            peers: nodes.into_iter().filter(|node| *node != own).filter_map(peer).collect(),
        })
    }
}

/// A node's word that it has the slot's whole state up to an index, as safe as it promises (R0).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acked {
    /// Up to here.
    pub index: OpIndex,
    /// The boot it said so in.
    pub boot: Boot,
    /// The version of its table when it did.
    pub version: TableVersion,
}

/// What is to be proposed for the slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Want {
    /// `GrowInSync`: the node has all that was there when it began to count.
    Grow {
        /// Who.
        node: NodeId,
        /// Its boot, by the table the decision was made at.
        boot: Boot,
        /// That table's version.
        seen: TableVersion,
    },
    /// `ShrinkInSync`: the owner goes on without the node.
    Shrink {
        /// Who.
        node: NodeId,
        /// The version of the table the decision was made at.
        seen: TableVersion,
    },
}

impl Want {
    /// As a change of these slots, which all want the same.
    pub fn change(self, slots: SlotRanges) -> TableChange {
        match self {
            Want::Grow { node, boot, seen } => {
                TableChange::GrowInSync { slots, node, node_boot: boot, seen }
            }
            Want::Shrink { node, seen } => TableChange::ShrinkInSync { slots, node, seen },
        }
    }
}

/// Where a copy stands with the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// It is being filled, or follows without being waited for.
    Outside,
    /// It counts, and is to be grown once it has acked what was there.
    Counted {
        /// The slot's last index when it began to count.
        noted: OpIndex,
        /// Grow is wanted, decided at this version.
        asked: Option<TableVersion>,
    },
    /// It counts, by the table.
    InSync,
    /// It counts, until the table lets it go; decided at this version.
    Leaving { seen: TableVersion },
}

impl Standing {
    fn counts(self) -> bool {
        self != Standing::Outside
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    peer: Peer,
    standing: Standing,
    acked: Option<Acked>,
    /// When it acked last or began to count, monotonic.
    heard: Duration,
}

impl Member {
    /// Has it acked an index, in the boot that counts (R6)?
    fn has(&self, index: OpIndex) -> bool {
        self.acked().is_some_and(|acked| acked.index >= index)
    }

    fn acked(&self) -> Option<Acked> {
        self.acked.filter(|acked| acked.boot == self.peer.boot)
    }
}

/// The owner's book of one slot and epoch. Gone with the process and with the epoch.
#[derive(Clone, Debug)]
pub struct Lead {
    epoch: Epoch,
    ver: TableVersion,
    version: TableVersion,
    ack: AckMode,
    /// The slot's last index.
    last: OpIndex,
    members: Vec<Member>,
}

impl Lead {
    /// Begins an epoch: `last` is the index it begins with.
    pub fn begin(terms: &Terms, last: OpIndex, now: Duration) -> Lead {
        let Terms { epoch, ver, version, ack, .. } = *terms;
        let mut lead = Lead { epoch, ver, version, ack, last, members: Vec::new() };
        lead.members = terms.peers.iter().map(|peer| lead.member(*peer, now)).collect();
        lead
    }

    fn member(&self, peer: Peer, now: Duration) -> Member {
        let standing = if peer.is_in_sync { Standing::InSync } else { Standing::Outside };
        Member { peer, standing, acked: None, heard: now }
    }

    /// The epoch it is the book of.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The table is further. Refused if the slot has another epoch: that is another book.
    pub fn learn(&mut self, terms: &Terms, now: Duration) -> bool {
        if terms.epoch != self.epoch {
            return false;
        }
        let has_moved = terms.ver != self.ver;
        let before = std::mem::take(&mut self.members);
        (self.ver, self.version, self.ack) = (terms.ver, terms.version, terms.ack);
        let mut members: Vec<Member> = Vec::with_capacity(terms.peers.len());
        for peer in &terms.peers {
            let known = before.iter().find(|member| member.peer.node == peer.node);
            members.push(match known {
                Some(known) => self.relearned(*known, *peer, has_moved, now),
                None => self.member(*peer, now),
            });
        }
        // Named by the table no more, and counting: until `ver` moves the entry that is to take it
        // in may still be committed.
        let is_owed = |member: &&Member| {
            let is_named = terms.peers.iter().any(|peer| peer.node == member.peer.node);
            !has_moved && !is_named && member.standing.counts()
        };
        members.extend(before.iter().filter(is_owed));
        self.members = members;
        true
    }

    fn relearned(&self, known: Member, peer: Peer, has_moved: bool, now: Duration) -> Member {
        let mut member = Member { peer, ..known };
        let has_started = known.peer.boot != peer.boot;
        if has_moved {
            // Whatever was proposed at an older version is refused from now on.
            member.standing = self.member(peer, now).standing;
        }
        if has_started {
            member.heard = now;
            // What its earlier boot acked may be gone.
            if let Standing::Counted { noted, asked } = &mut member.standing {
                (*noted, *asked) = (self.last, None);
            }
        }
        member
    }

    /// The slot has got further.
    pub fn wrote(&mut self, last: OpIndex) {
        assert!(last >= self.last, "a slot's index never falls");
        self.last = last;
    }

    /// The slot's last index.
    pub fn last(&self) -> OpIndex {
        self.last
    }

    /// A node has acked, in this epoch. One that is not waited for may be anybody.
    pub fn acked(&mut self, node: NodeId, acked: Acked, now: Duration) {
        let Some(member) = self.members.iter_mut().find(|member| member.peer.node == node) else {
            return;
        };
        // A later life or a later table replaces what was said: the copy may have been freed and
        // begun anew in between. Else the higher index stands. A boot that is not applied yet makes
        // acks wait (R6).
        let rank = |acked: Acked| (acked.boot, acked.version, acked.index);
        if member.acked.is_none_or(|old| rank(acked) > rank(old)) {
            member.acked = Some(acked);
        }
        if acked.boot == member.peer.boot {
            member.heard = now;
        }
    }

    /// A node counts from now on, and is grown when it has what is there now. False: it has no
    /// place in the slot, or followers do not count; or it counts already.
    pub fn count(&mut self, node: NodeId, now: Duration) -> bool {
        let (noted, ack) = (self.last, self.ack);
        let Some(member) = self.members.iter_mut().find(|member| member.peer.node == node) else {
            return false;
        };
        let may = ack == AckMode::InSync || member.peer.is_target;
        if !may || member.standing != Standing::Outside {
            return false;
        }
        member.standing = Standing::Counted { noted, asked: None };
        member.heard = now;
        true
    }

    /// The owner wants to go on without a node, be it in sync or about to be: it counts until the
    /// table has answered. False: it does not count.
    pub fn let_go(&mut self, node: NodeId) -> bool {
        let seen = self.version;
        let member = self.members.iter_mut().find(|member| member.peer.node == node);
        let Some(member) = member.filter(|member| member.standing.counts()) else { return false };
        if !matches!(member.standing, Standing::Leaving { .. }) {
            member.standing = Standing::Leaving { seen };
        }
        true
    }

    /// What is to be proposed, or proposed again, unchanged.
    pub fn wants(&mut self) -> Vec<Want> {
        let (version, ver) = (self.version, self.ver);
        let mut wants = Vec::new();
        for member in &mut self.members {
            let Member { peer: Peer { node, boot, .. }, .. } = *member;
            let acked = member.acked();
            match &mut member.standing {
                Standing::Counted { noted, asked } => {
                    // What it acked at an older table it may have freed since.
                    let has = |acked: Acked| acked.index >= *noted && acked.version >= ver;
                    if asked.is_none() && acked.is_some_and(has) {
                        *asked = Some(version);
                    }
                    wants.extend(asked.map(|seen| Want::Grow { node, boot, seen }));
                }
                Standing::Leaving { seen } => wants.push(Want::Shrink { node, seen: *seen }),
                Standing::Outside | Standing::InSync => {}
            }
        }
        wants
    }

    /// Nodes whose acks are waited for.
    pub fn counted(&self) -> impl Iterator<Item = NodeId> {
        let counted = self.members.iter().filter(|member| member.standing.counts());
        counted.map(|member| member.peer.node)
    }

    /// Is anybody waited for at all? If not, the owner's own word is enough.
    pub fn waits(&self) -> bool {
        self.members.iter().any(|member| member.standing.counts())
    }

    /// Every member that counts has this index: what depends on it may leave.
    pub fn is_safe(&self, index: OpIndex) -> bool {
        let mut counted = self.members.iter().filter(|member| member.standing.counts());
        counted.all(|member| index == OpIndex(0) || member.has(index))
    }

    /// The last index that all who count have.
    pub fn safe(&self) -> OpIndex {
        let counted = self.members.iter().filter(|member| member.standing.counts());
        let have = counted.map(|member| member.acked().map_or(OpIndex(0), |acked| acked.index));
        have.chain([self.last]).min().unwrap_or(self.last)
    }

    /// Is a node in sync by the table, and has it everything?
    pub fn has_all(&self, node: NodeId) -> bool {
        self.members.iter().any(|member| {
            member.peer.node == node && member.peer.is_in_sync && member.has(self.last)
        })
    }

    /// How many groups a node is behind; `None` if it never acked, or has no place here.
    pub fn lag(&self, node: NodeId) -> Option<u64> {
        let member = self.members.iter().find(|member| member.peer.node == node)?;
        member.acked().map(|acked| self.last.0.saturating_sub(acked.index.0))
    }

    /// Who counts, owes an ack and has been silent for too long: new writes wait for nobody's
    /// sake, they are refused, and it is let go. The longest silence first.
    pub fn silent(&self, now: Duration) -> Vec<NodeId> {
        let is_late = |member: &&Member| {
            let owes = member.standing.counts() && !member.has(self.last);
            owes && now.saturating_sub(member.heard) >= SILENCE_MAX
        };
        let mut silent: Vec<&Member> = self.members.iter().filter(is_late).collect();
        silent.sort_by_key(|member| (member.heard, member.peer.node));
        silent.into_iter().map(|member| member.peer.node).collect()
    }
}

#[cfg(test)]
mod tests;
