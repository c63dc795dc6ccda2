//! Which links are up: one per node.
//!
//! ```text
//!   a second link of the same start    the first one stays, but for one that the lower id
//!                                      dialed: it takes the place of one the higher dialed
//!   a link of the same dialer          takes the place: the dialer knows that its old one ended
//!   a link of a newer start            takes the place (PROTOCOL R6)
//! ```
//! Invariant: both sides decide alike, so two nodes that dial each other at once end with one link.
//! Whoever can reach the other dials; nobody waits for the lower id.

use std::collections::BTreeMap;

use slots::NodeId;

use super::greeting::{Hello, Side};
use super::identity::Identity;
use super::refusal::Refusal;

/// A link's number within this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u64);

/// A link that is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linked {
    /// Which.
    pub link: LinkId,
    /// Which side we are.
    pub side: Side,
    /// The other side's greeting.
    pub hello: Hello,
}

/// The links, and the newest start of each node that was let in.
#[derive(Default, Debug)]
pub struct Roll {
    links: BTreeMap<NodeId, Linked>,
    greeted: BTreeMap<NodeId, Identity>,
}

impl Roll {
    /// The link to a node.
    pub fn link(&self, node: NodeId) -> Option<&Linked> {
        self.links.get(&node)
    }

    /// All links, by node.
    pub fn links(&self) -> impl Iterator<Item = (NodeId, &Linked)> {
        self.links.iter().map(|(node, linked)| (*node, linked))
    }

    /// The newest start of a node that was let in.
    pub fn greeted(&self, node: NodeId) -> Option<Identity> {
        self.greeted.get(&node).copied()
    }

    /// Is there no need for a new link to who greets on it? Asked before it is let in.
    pub fn check(&self, me: NodeId, side: Side, theirs: &Hello) -> Result<(), Refusal> {
        let Some(old) = self.same_start(theirs) else { return Ok(()) };
        // Our own dial is given up early: the other side has not counted on it yet.
        match side == Side::Dialer || !replaces(me, old.side, side, theirs.identity.node) {
            true => Err(Refusal::Duplicate),
            false => Ok(()),
        }
    }

    /// Puts a link that came up in its place. The link it replaces; `Duplicate` if that one stays.
    pub fn admit(
        &mut self,
        me: NodeId,
        link: LinkId,
        side: Side,
        theirs: &Hello,
    ) -> Result<Option<LinkId>, Refusal> {
        let node = theirs.identity.node;
        if self.same_start(theirs).is_some_and(|old| !replaces(me, old.side, side, node)) {
            return Err(Refusal::Duplicate);
        }
        self.greeted.insert(node, theirs.identity);
        let old = self.links.insert(node, Linked { link, side, hello: theirs.clone() });
        Ok(old.map(|old| old.link))
    }

    fn same_start(&self, theirs: &Hello) -> Option<&Linked> {
        let old = self.links.get(&theirs.identity.node);
        old.filter(|old| old.hello.identity == theirs.identity)
    }

    /// A link ended. The node, if the link was in its place.
    pub fn remove(&mut self, link: LinkId) -> Option<NodeId> {
        let (node, _) = self.links.iter().find(|(_, linked)| linked.link == link)?;
        let node = *node;
        self.links.remove(&node);
        Some(node)
    }

    /// Forgets the starts of nodes that are not worth knowing any more and have no link.
    pub fn forget(&mut self, keep: impl Fn(NodeId) -> bool) {
        let links = &self.links;
        self.greeted.retain(|node, _| links.contains_key(node) || keep(*node));
    }
}

/// Does a new link take the place of an old one of the same start?
fn replaces(me: NodeId, old: Side, new: Side, node: NodeId) -> bool {
    let lower_dials = if me < node { Side::Dialer } else { Side::Acceptor };
    old == new || new == lower_dials
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::greeting::tests::hello;
    use slots::Boot;

    fn id(n: u8) -> NodeId {
        hello(n).identity.node
    }

    #[test]
    fn of_two_that_dial_at_once_both_keep_the_lower_ids_link() {
        // Link 1 was dialed by node 1, link 2 by node 2; each side may see either come up first.
        for (low_first, high_first) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let kept = |me: u8, first: u64| {
                let mut roll = Roll::default();
                let other = 3 - me;
                for link in [first, 3 - first] {
                    let side = if link == u64::from(me) { Side::Dialer } else { Side::Acceptor };
                    let _ = roll.admit(id(me), LinkId(link), side, &hello(other));
                }
                roll.link(id(other)).map(|linked| linked.link)
            };
            assert_eq!(kept(1, low_first), Some(LinkId(1)));
            assert_eq!(kept(2, high_first), Some(LinkId(1)));
        }
    }

    #[test]
    fn a_link_that_the_higher_id_dialed_is_as_good() {
        let mut roll = Roll::default();
        assert_eq!(roll.admit(id(1), LinkId(7), Side::Acceptor, &hello(2)), Ok(None));
        assert_eq!(roll.check(id(1), Side::Dialer, &hello(2)), Err(Refusal::Duplicate));
        assert_eq!(roll.remove(LinkId(7)), Some(id(2)));
        assert_eq!(roll.remove(LinkId(7)), None);
        assert_eq!(roll.check(id(1), Side::Dialer, &hello(2)), Ok(()));
    }

    #[test]
    fn a_new_link_of_the_same_dialer_or_a_newer_start_replaces_the_old() {
        let mut roll = Roll::default();
        assert_eq!(roll.admit(id(1), LinkId(1), Side::Dialer, &hello(2)), Ok(None));
        assert_eq!(roll.check(id(1), Side::Acceptor, &hello(2)), Err(Refusal::Duplicate));
        let again = roll.admit(id(1), LinkId(2), Side::Dialer, &hello(2));
        assert_eq!(again, Ok(Some(LinkId(1))));
        let mut newer = hello(2);
        newer.identity.boot = Boot(4);
        assert_eq!(roll.check(id(1), Side::Acceptor, &newer), Ok(()));
        let newer = roll.admit(id(1), LinkId(3), Side::Acceptor, &newer);
        assert_eq!(newer, Ok(Some(LinkId(2))));
        assert_eq!(roll.greeted(id(2)).map(|greeted| greeted.boot), Some(Boot(4)));
        // The replaced link's end leaves the new one alone.
        assert_eq!(roll.remove(LinkId(2)), None);
        roll.forget(|_| false);
        assert!(roll.greeted(id(2)).is_some());
        assert_eq!(roll.remove(LinkId(3)), Some(id(2)));
        roll.forget(|_| false);
        assert_eq!(roll.greeted(id(2)), None);
    }
}
