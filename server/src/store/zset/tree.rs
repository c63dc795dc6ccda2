//! A counted B+tree of (score, member): the order of a large sorted set. Not its index: finding a
//! member's score is the table's work; the tree is asked with both known.
//!
//! ```text
//! Inner: separators[i] <= everything in children[i], > everything in children[i - 1]
//!        counts[i] = entries below children[i]; separators[0] is never looked at
//! Leaf:  entries in order
//! ```
//!
//! Invariant: all leaves lie at one depth; no node but the root leaf is empty; of two neighbours
//! under one parent at least one is a quarter full. Every call works on one path.

use std::cmp::Ordering;
use std::{mem, slice};

use smallvec::SmallVec;

use super::member::Member;
use super::node::{INNER_MAX, Inner, LEAF_MAX, Leaf, Node, separator};

/// Entries ordered by score, then by the bytes of the member. -0 and 0 are the same score.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: Node,
    len: usize,
    bytes: usize,
}

/// One member with its score.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) score: f64,
    pub(super) member: Member,
}

impl Entry {
    pub(super) fn new(score: f64, member: &[u8]) -> Entry {
        Entry { score, member: Member::new(member) }
    }

    #[inline]
    pub(super) fn order(&self, score: f64, member: &[u8]) -> Ordering {
        compare(self.score, self.member.as_slice(), score, member)
    }
}

/// The order of sorted sets. Scores are never NaN: commands refuse it.
#[inline]
pub(super) fn compare(score: f64, member: &[u8], other: f64, other_member: &[u8]) -> Ordering {
    if score < other {
        Ordering::Less
    } else if score > other {
        Ordering::Greater
    } else {
        member.cmp(other_member)
    }
}

/// A new right neighbour of the node that split.
struct Split {
    separator: Entry,
    node: Node,
}

impl Tree {
    pub(super) fn new() -> Tree {
        let root = Node::Leaf(Leaf::with_capacity(LEAF_MAX));
        let bytes = root.own_bytes();
        Tree { root, len: 0, bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the allocations.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an entry that is not there yet.
    pub(super) fn insert(&mut self, score: f64, member: &[u8]) {
        let entry = Entry::new(score, member);
        self.bytes += entry.member.heap_bytes();
        let split = insert_into(&mut self.root, entry, true, &mut self.bytes);
        self.len += 1;
        if let Some(split) = split {
            let mut top = Inner::new();
            let left = mem::replace(&mut self.root, Node::Leaf(Leaf::new()));
            top.push(Entry::new(0.0, b""), left);
            top.push(split.separator, split.node);
            self.root = Node::Inner(Box::new(top));
            self.bytes += self.root.own_bytes();
        }
    }

    /// Removes an entry that is there.
    pub(super) fn remove(&mut self, score: f64, member: &[u8]) {
        let rank = self.rank_where(|s, m| compare(s, m, score, member).is_lt());
        let gone = self.remove_at(rank);
        assert!(gone.order(score, member).is_eq(), "index and tree hold the same members");
    }

    /// Removes the entry at `rank`, which must exist.
    pub(super) fn remove_at(&mut self, rank: usize) -> Entry {
        assert!(rank < self.len, "rank {rank} of {}", self.len);
        let entry = remove_from(&mut self.root, rank, &mut self.bytes);
        self.bytes -= entry.member.heap_bytes();
        self.len -= 1;
        while let Node::Inner(inner) = &mut self.root
            && inner.children.len() == 1
            && let Some(only) = inner.children.pop()
        {
            self.bytes -= self.root.own_bytes() + self.root.separator_bytes();
            self.root = only;
        }
        entry
    }

    /// How many entries come before the first for which `before` is false. `before` must be true
    /// for a first part of the order and false for the rest.
    pub(super) fn rank_where(&self, before: impl Fn(f64, &[u8]) -> bool) -> usize {
        let is_before = |entry: &Entry| before(entry.score, entry.member.as_slice());
        let mut node = &self.root;
        let mut rank = 0;
        loop {
            match node {
                Node::Leaf(leaf) => return rank + leaf.partition_point(is_before),
                Node::Inner(inner) => {
                    let child = inner.separators[1..].partition_point(is_before);
                    rank += inner.counts[..child].iter().sum::<usize>();
                    node = &inner.children[child];
                }
            }
        }
    }

    /// From the entry at `rank` up.
    pub(super) fn iter_from(&self, rank: usize) -> Ascend<'_> {
        let (mut path, mut leaf, mut rest) = (Path::new(), &[][..], rank);
        if rank < self.len {
            let mut node = &self.root;
            while let Node::Inner(inner) = node {
                let child = inner.child_at(&mut rest);
                path.push(inner.children[child + 1..].iter());
                node = &inner.children[child];
            }
            leaf = &node.leaf()[rest..];
        }
        Ascend { path, leaf: leaf.iter() }
    }

    /// From the entry at `rank` down; nothing if there is no such entry.
    pub(super) fn iter_rev_from(&self, rank: usize) -> Descend<'_> {
        let (mut path, mut leaf, mut rest) = (Path::new(), &[][..], rank);
        if rank < self.len {
            let mut node = &self.root;
            while let Node::Inner(inner) = node {
                let child = inner.child_at(&mut rest);
                path.push(inner.children[..child].iter());
                node = &inner.children[child];
            }
            leaf = &node.leaf()[..=rest];
        }
        Descend { path, leaf: leaf.iter() }
    }
}

/// Inserts below `node`; `last` says that `node` is the rightmost of its depth.
fn insert_into(node: &mut Node, entry: Entry, last: bool, bytes: &mut usize) -> Option<Split> {
    match node {
        Node::Leaf(leaf) => {
            let member = entry.member.as_slice();
            let place = leaf.partition_point(|e| e.order(entry.score, member).is_lt());
            if leaf.len() < LEAF_MAX {
                leaf.insert(place, entry);
                return None;
            }
            Some(split_leaf(leaf, place, entry, last, bytes))
        }
        Node::Inner(inner) => {
            let member = entry.member.as_slice();
            let is_before = |e: &Entry| e.order(entry.score, member).is_le();
            let child = inner.separators[1..].partition_point(is_before);
            let last = last && child + 1 == inner.children.len();
            inner.counts[child] += 1;
            let split = insert_into(&mut inner.children[child], entry, last, bytes)?;
            inner.counts[child] -= split.node.len();
            if inner.children.len() < INNER_MAX {
                inner.insert(child + 1, split.separator, split.node);
                return None;
            }
            Some(split_inner(inner, child + 1, split, last, bytes))
        }
    }
}

/// Splits a full leaf and puts the entry in. Appends at the end of the order (time stamps) leave
/// full leaves behind.
fn split_leaf(leaf: &mut Leaf, place: usize, entry: Entry, last: bool, bytes: &mut usize) -> Split {
    let cut = if last && place == leaf.len() { leaf.len() } else { LEAF_MAX / 2 };
    let mut right = Leaf::with_capacity(LEAF_MAX);
    right.extend(leaf.drain(cut..));
    if place > cut || cut == LEAF_MAX {
        right.insert(place - cut, entry);
    } else {
        leaf.insert(place, entry);
    }
    let separator = separator(&leaf[leaf.len() - 1], &right[0]);
    let node = Node::Leaf(right);
    *bytes += node.own_bytes() + separator.member.heap_bytes();
    Split { separator, node }
}

/// Splits a full inner node and puts the child in. The separator in the middle moves up.
fn split_inner(
    inner: &mut Inner,
    place: usize,
    child: Split,
    last: bool,
    bytes: &mut usize,
) -> Split {
    let appended = last && place == inner.children.len();
    let cut = if appended { INNER_MAX } else { INNER_MAX / 2 };
    let mut right = inner.split_off(cut);
    if place > cut || appended {
        right.insert(place - cut, child.separator, child.node);
    } else {
        inner.insert(place, child.separator, child.node);
    }
    let separator = mem::replace(&mut right.separators[0], Entry::new(0.0, b""));
    let node = Node::Inner(Box::new(right));
    *bytes += node.own_bytes();
    Split { separator, node }
}

fn remove_from(node: &mut Node, rank: usize, bytes: &mut usize) -> Entry {
    match node {
        Node::Leaf(leaf) => leaf.remove(rank),
        Node::Inner(inner) => {
            let mut rest = rank;
            let child = inner.child_at(&mut rest);
            inner.counts[child] -= 1;
            let entry = remove_from(&mut inner.children[child], rest, bytes);
            if inner.counts[child] == 0 {
                drop_empty(inner, child, bytes);
            } else if inner.children[child].is_sparse() {
                let joined = child > 0 && join(inner, child - 1, bytes);
                if !joined {
                    join(inner, child, bytes);
                }
            }
            entry
        }
    }
}

/// Drops an empty child: its neighbours were too full to join it. An only child stays: its parent
/// is empty too and goes in its stead.
fn drop_empty(inner: &mut Inner, child: usize, bytes: &mut usize) {
    if inner.children.len() == 1 {
        return;
    }
    let (before, _, empty) = inner.remove(child);
    *bytes -= empty.spine_bytes() + before.member.heap_bytes();
    if child == 0 {
        let first = mem::replace(&mut inner.separators[0], Entry::new(0.0, b""));
        *bytes -= first.member.heap_bytes();
    }
}

/// Joins child `left` with its right neighbour if both fit in one node.
fn join(inner: &mut Inner, left: usize, bytes: &mut usize) -> bool {
    let Some(right) = inner.children.get(left + 1) else { return false };
    if !inner.children[left].can_take(right) {
        return false;
    }
    let (between, count, right) = inner.remove(left + 1);
    *bytes -= right.own_bytes() + between.member.heap_bytes();
    inner.counts[left] += count;
    match (&mut inner.children[left], right) {
        (Node::Leaf(here), Node::Leaf(mut there)) => here.append(&mut there),
        (Node::Inner(here), Node::Inner(mut there)) => {
            *bytes += between.member.heap_bytes();
            there.separators[0] = between;
            here.append(&mut there);
        }
        _ => unreachable!("all leaves lie at one depth"),
    }
    true
}

/// What is left to visit at each inner level; six levels hold more members than memory does.
type Path<'a> = SmallVec<[slice::Iter<'a, Node>; 6]>;

/// Entries in rising order.
#[derive(Clone, Debug)]
pub(super) struct Ascend<'a> {
    path: Path<'a>,
    leaf: slice::Iter<'a, Entry>,
}

impl<'a> Iterator for Ascend<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.leaf.next() {
                return Some((entry.member.as_slice(), entry.score));
            }
            match next_subtree(&mut self.path, Iterator::next)? {
                Node::Leaf(leaf) => self.leaf = leaf.iter(),
                Node::Inner(inner) => self.path.push(inner.children.iter()),
            }
        }
    }
}

/// Entries in falling order.
#[derive(Clone, Debug)]
pub(super) struct Descend<'a> {
    path: Path<'a>,
    leaf: slice::Iter<'a, Entry>,
}

impl<'a> Iterator for Descend<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.leaf.next_back() {
                return Some((entry.member.as_slice(), entry.score));
            }
            match next_subtree(&mut self.path, DoubleEndedIterator::next_back)? {
                Node::Leaf(leaf) => self.leaf = leaf.iter(),
                Node::Inner(inner) => self.path.push(inner.children.iter()),
            }
        }
    }
}

/// The next child of the lowest node on the path that has one left.
fn next_subtree<'a>(
    path: &mut Path<'a>,
    step: impl Fn(&mut slice::Iter<'a, Node>) -> Option<&'a Node>,
) -> Option<&'a Node> {
    loop {
        if let Some(node) = step(path.last_mut()?) {
            return Some(node);
        }
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Key = (u64, Vec<u8>);

    /// The model's order: scores that are small integers, so bits order as they do.
    fn key(score: u8, member: &[u8]) -> Key {
        (f64::from(score).to_bits(), member.to_vec())
    }

    fn check(tree: &Tree, model: &[Key]) {
        assert_eq!(tree.len(), model.len());
        assert_eq!(tree.root.check_shape(true), model.len());
        assert_eq!(tree.root.all_bytes(), tree.bytes());
        let keys = tree.iter_from(0).map(|(m, s)| (s.to_bits(), m.to_vec()));
        assert!(keys.eq(model.iter().cloned()));
    }

    fn check_at(tree: &Tree, model: &[Key], rank: usize) {
        let up = tree.iter_from(rank).map(|(m, s)| (s.to_bits(), m.to_vec()));
        assert!(up.eq(model.iter().skip(rank).cloned()));
        let down = tree.iter_rev_from(rank).map(|(m, s)| (s.to_bits(), m.to_vec()));
        let part = if rank < model.len() { &model[..=rank] } else { &[] };
        assert!(down.eq(part.iter().rev().cloned()));
        if let Some((score, member)) = model.get(rank) {
            let score = f64::from_bits(*score);
            assert_eq!(tree.rank_where(|s, m| compare(s, m, score, member).is_lt()), rank);
        }
    }

    /// Applies (score, number, keep) and returns both sides.
    fn grown(changes: &[(u8, u16, bool)], long: bool) -> (Tree, Vec<Key>) {
        let mut tree = Tree::new();
        let mut model: Vec<Key> = Vec::new();
        for &(score, number, keep) in changes {
            let mut member = format!("{number}").into_bytes();
            if long {
                member.splice(0..0, [b'.'; 30]);
            }
            match model.binary_search(&key(score, &member)) {
                Ok(at) if !keep => {
                    tree.remove(f64::from(score), &member);
                    model.remove(at);
                }
                Err(at) if keep => {
                    tree.insert(f64::from(score), &member);
                    model.insert(at, key(score, &member));
                }
                _ => {}
            }
        }
        (tree, model)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn behaves_as_a_sorted_vector(
            changes in prop::collection::vec((0u8..4, 0u16..2000, prop::bool::weighted(0.8)), 6000),
            removals in prop::collection::vec(any::<usize>(), 0..6000),
            long in any::<bool>(),
        ) {
            let (mut tree, mut model) = grown(&changes, long);
            check(&tree, &model);
            for (turn, rank) in removals.into_iter().enumerate() {
                if model.is_empty() {
                    break;
                }
                let rank = rank % model.len();
                let gone = tree.remove_at(rank);
                prop_assert_eq!(gone.member.as_slice(), &model.remove(rank).1[..]);
                if turn % 500 == 0 {
                    check(&tree, &model);
                    check_at(&tree, &model, rank);
                    check_at(&tree, &model, model.len());
                    prop_assert_eq!(tree.clone().len(), model.len());
                }
            }
            check(&tree, &model);
        }
    }

    #[test]
    fn rising_scores_leave_full_leaves() {
        let mut tree = Tree::new();
        for i in 0..100_000u32 {
            tree.insert(f64::from(i), &i.to_be_bytes());
        }
        tree.root.check_shape(true);
        assert!(tree.bytes() < 100_000 * 36, "{}", tree.bytes());
    }

    #[test]
    fn a_subtree_empties_between_full_neighbours() {
        for long in [false, true] {
            let mut tree = Tree::new();
            let member =
                |i: u32| format!("{}{i:09}", ["", "a prefix of many bytes "][usize::from(long)]);
            (0..300_000).for_each(|i| tree.insert(1.0, member(i).as_bytes()));
            let full = LEAF_MAX * INNER_MAX;
            for start in [0, full, 40 * full] {
                for _ in 0..full + 5 {
                    tree.remove_at(start);
                }
                assert_eq!(tree.root.check_shape(true), tree.len());
                assert_eq!(tree.root.all_bytes(), tree.bytes());
            }
            while tree.len() > 0 {
                tree.remove_at(tree.len() / 2);
            }
            assert_eq!(tree.bytes(), Tree::new().bytes());
        }
    }

    #[test]
    fn minus_zero_is_zero() {
        let mut tree = Tree::new();
        tree.insert(-0.0, b"b");
        tree.insert(0.0, b"a");
        let members: Vec<&[u8]> = tree.iter_from(0).map(|(m, _)| m).collect();
        assert_eq!(members, [b"a", b"b"]);
        tree.remove(0.0, b"b");
        assert_eq!(tree.len(), 1);
    }
}
