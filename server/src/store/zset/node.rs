//! The nodes of the counted tree: what fits in one, and what it weighs. Not the search: that is
//! the tree's.
//! Invariant: a leaf is allocated for `LEAF_MAX` entries and an inner node for `INNER_MAX`
//! children from the start, so a node never moves while it grows and its bytes are known.

use super::tree::Entry;
use crate::store::class::size_class;

/// Entries of a leaf: 1 KiB of them, half of which an insert moves.
pub(super) const LEAF_MAX: usize = 32;

/// Children of an inner node: a million members stand on three levels of them.
pub(super) const INNER_MAX: usize = 64;

pub(super) type Leaf = Vec<Entry>;

/// A leaf or an inner node.
#[derive(Debug)]
pub(super) enum Node {
    Leaf(Leaf),
    Inner(Box<Inner>),
}

/// Children with their counts, and what separates them.
#[derive(Debug)]
pub(super) struct Inner {
    /// `separators[i]` lies between children `i - 1` and `i`; the first is a placeholder.
    pub(super) separators: Vec<Entry>,
    pub(super) counts: Vec<usize>,
    pub(super) children: Vec<Node>,
}

impl Node {
    /// Entries below.
    pub(super) fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Inner(inner) => inner.counts.iter().sum(),
        }
    }

    /// The entries of a leaf; a path ends at one.
    pub(super) fn leaf(&self) -> &[Entry] {
        match self {
            Node::Leaf(leaf) => leaf,
            Node::Inner(_) => &[],
        }
    }

    /// Whether joining with a neighbour is worth a try: below a quarter.
    pub(super) fn is_sparse(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.len() < LEAF_MAX / 4,
            Node::Inner(inner) => inner.children.len() < INNER_MAX / 4,
        }
    }

    /// Whether what hangs under `other` fits in here as well.
    pub(super) fn can_take(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Leaf(here), Node::Leaf(there)) => here.len() + there.len() <= LEAF_MAX,
            (Node::Inner(here), Node::Inner(there)) => {
                here.children.len() + there.children.len() <= INNER_MAX
            }
            _ => false,
        }
    }

    /// Bytes of this node alone, without long members.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Node::Leaf(_) => size_class(LEAF_MAX * size_of::<Entry>()),
            Node::Inner(_) => {
                size_class(size_of::<Inner>())
                    + size_class(INNER_MAX * size_of::<Entry>())
                    + size_class(INNER_MAX * size_of::<usize>())
                    + size_class(INNER_MAX * size_of::<Node>())
            }
        }
    }

    /// Bytes of an empty subtree, whose inner nodes have one child each.
    pub(super) fn spine_bytes(&self) -> usize {
        let below = match self {
            Node::Leaf(_) => 0,
            Node::Inner(inner) => inner.children.iter().map(Node::spine_bytes).sum(),
        };
        below + self.own_bytes() + self.separator_bytes()
    }

    /// Bytes of the long separators of this node.
    pub(super) fn separator_bytes(&self) -> usize {
        match self {
            Node::Leaf(_) => 0,
            Node::Inner(inner) => inner.separators.iter().map(|e| e.member.heap_bytes()).sum(),
        }
    }
}

impl Clone for Node {
    fn clone(&self) -> Node {
        match self {
            Node::Leaf(leaf) => Node::Leaf(cloned(leaf, LEAF_MAX)),
            Node::Inner(inner) => Node::Inner(Box::new(Inner {
                separators: cloned(&inner.separators, INNER_MAX),
                counts: cloned(&inner.counts, INNER_MAX),
                children: cloned(&inner.children, INNER_MAX),
            })),
        }
    }
}

impl Inner {
    pub(super) fn new() -> Inner {
        Inner {
            separators: Vec::with_capacity(INNER_MAX),
            counts: Vec::with_capacity(INNER_MAX),
            children: Vec::with_capacity(INNER_MAX),
        }
    }

    /// The child that holds the entry at `rank`, which becomes the rank inside it. The rank just
    /// past the end lies in the last child.
    pub(super) fn child_at(&self, rank: &mut usize) -> usize {
        let mut child = 0;
        while *rank >= self.counts[child] && child + 1 < self.children.len() {
            *rank -= self.counts[child];
            child += 1;
        }
        child
    }

    pub(super) fn push(&mut self, separator: Entry, child: Node) {
        self.insert(self.children.len(), separator, child);
    }

    pub(super) fn insert(&mut self, place: usize, separator: Entry, child: Node) {
        self.separators.insert(place, separator);
        self.counts.insert(place, child.len());
        self.children.insert(place, child);
    }

    pub(super) fn remove(&mut self, place: usize) -> (Entry, usize, Node) {
        let count = self.counts.remove(place);
        (self.separators.remove(place), count, self.children.remove(place))
    }

    pub(super) fn append(&mut self, right: &mut Inner) {
        self.separators.append(&mut right.separators);
        self.counts.append(&mut right.counts);
        self.children.append(&mut right.children);
    }

    pub(super) fn split_off(&mut self, cut: usize) -> Inner {
        let mut right = Inner::new();
        right.separators.extend(self.separators.drain(cut..));
        right.counts.extend(self.counts.drain(cut..));
        right.children.extend(self.children.drain(cut..));
        right
    }
}

/// The shortest entry above `left` and not above `right`: separators stay small whatever the
/// members are.
pub(super) fn separator(left: &Entry, right: &Entry) -> Entry {
    if left.score < right.score {
        return Entry::new(right.score, b"");
    }
    let (low, high) = (left.member.as_slice(), right.member.as_slice());
    let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    Entry::new(right.score, &high[..(common + 1).min(high.len())])
}

fn cloned<T: Clone>(from: &[T], capacity: usize) -> Vec<T> {
    let mut to = Vec::with_capacity(capacity);
    to.extend_from_slice(from);
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Node {
        /// Asserts the invariants below this node; returns the entries.
        pub(in crate::store::zset) fn check_shape(&self, root: bool) -> usize {
            let Node::Inner(inner) = self else {
                assert!(root || self.len() > 0);
                assert!(self.len() <= LEAF_MAX);
                return self.len();
            };
            assert!(inner.children.len() > usize::from(root));
            assert!(inner.children.len() <= INNER_MAX);
            assert_eq!(inner.separators.len(), inner.children.len());
            assert_eq!(inner.separators.capacity(), INNER_MAX);
            for (child, count) in inner.children.iter().zip(&inner.counts) {
                assert_eq!(child.check_shape(false), *count);
                assert_eq!(child.depth(), inner.children[0].depth());
            }
            for (i, pair) in inner.children.windows(2).enumerate() {
                let separator = &inner.separators[i + 1];
                let text = separator.member.as_slice();
                assert!(pair[0].last().order(separator.score, text).is_lt());
                assert!(pair[1].first().order(separator.score, text).is_ge());
                assert!(!pair[0].is_sparse() || !pair[1].is_sparse());
            }
            inner.counts.iter().sum()
        }

        /// The bytes counted node by node.
        pub(in crate::store::zset) fn all_bytes(&self) -> usize {
            let below: usize = match self {
                Node::Leaf(leaf) => leaf.iter().map(|e| e.member.heap_bytes()).sum(),
                Node::Inner(inner) => inner.children.iter().map(Node::all_bytes).sum(),
            };
            below + self.own_bytes() + self.separator_bytes()
        }

        fn depth(&self) -> usize {
            match self {
                Node::Leaf(_) => 0,
                Node::Inner(inner) => 1 + inner.children[0].depth(),
            }
        }

        fn first(&self) -> &Entry {
            match self {
                Node::Leaf(leaf) => &leaf[0],
                Node::Inner(inner) => inner.children[0].first(),
            }
        }

        fn last(&self) -> &Entry {
            match self {
                Node::Leaf(leaf) => &leaf[leaf.len() - 1],
                Node::Inner(inner) => inner.children[inner.children.len() - 1].last(),
            }
        }
    }

    #[test]
    fn separators_are_short() {
        let cut = |low: (f64, &str), high: (f64, &str)| {
            let low = Entry::new(low.0, low.1.as_bytes());
            let entry = separator(&low, &Entry::new(high.0, high.1.as_bytes()));
            (entry.score, String::from_utf8_lossy(entry.member.as_slice()).into_owned())
        };
        assert_eq!(cut((1.0, "zzz"), (2.0, "long member")), (2.0, String::new()));
        assert_eq!(cut((1.0, "aaa1"), (1.0, "aaa2xyz")), (1.0, "aaa2".into()));
        assert_eq!(cut((1.0, "aaa"), (1.0, "aaab")), (1.0, "aaab".into()));
    }
}
