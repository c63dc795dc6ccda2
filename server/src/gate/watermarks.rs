//! How far each lane is safe, per set of counted members.
//!
//! Not how that becomes known.
//!
//! Invariant: a watermark never goes back.

use std::collections::HashMap;

use super::Tag;

/// Who knows how safe ops are.
pub trait Safety {
    /// Whether a reply with this tag may leave.
    fn covers(&self, tag: Tag) -> bool;
}

/// Safe positions per lane and set. What was never raised is not safe at all.
#[derive(Clone, Default, Debug)]
pub struct Watermarks {
    /// Keyed by lane and set; a node has a few lanes per worker and a few sets.
    safe: HashMap<(u16, u32), u64>,
}

impl Watermarks {
    /// Nothing is safe.
    pub fn new() -> Watermarks {
        Watermarks::default()
    }

    /// Everything of the tag's lane up to its position is held by all members of its set. Says
    /// whether that was news; an older word changes nothing.
    pub fn raise(&mut self, up_to: Tag) -> bool {
        let safe = self.safe.entry((up_to.lane, up_to.set)).or_default();
        let is_news = up_to.position > *safe;
        *safe = up_to.position.max(*safe);
        is_news
    }

    /// Forgets a set no reply waits for any more: its members are counted no longer.
    pub fn retire(&mut self, set: u32) {
        self.safe.retain(|(_, of), _| *of != set);
    }
}

impl Safety for Watermarks {
    fn covers(&self, tag: Tag) -> bool {
        self.safe.get(&(tag.lane, tag.set)).is_some_and(|safe| tag.position <= *safe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn tag(lane: u16, position: u64, set: u32) -> Tag {
        Tag { lane, position, set }
    }

    #[test]
    fn an_older_word_changes_nothing() {
        let mut marks = Watermarks::new();
        assert!(!marks.covers(tag(1, 0, 1)));
        assert!(marks.raise(tag(1, 5, 1)));
        assert!(!marks.raise(tag(1, 3, 1)));
        assert!(!marks.raise(tag(1, 5, 1)));
        assert!(marks.covers(tag(1, 5, 1)) && !marks.covers(tag(1, 6, 1)));
    }

    #[test]
    fn lanes_and_sets_are_apart() {
        let mut marks = Watermarks::new();
        marks.raise(tag(1, 5, 1));
        assert!(!marks.covers(tag(2, 5, 1)) && !marks.covers(tag(1, 5, 2)));
        marks.raise(tag(1, 9, 2));
        marks.retire(1);
        assert!(!marks.covers(tag(1, 1, 1)) && marks.covers(tag(1, 9, 2)));
    }
}
