//! A member's bytes inside the counted tree: in place when short, else an allocation of its own,
//! so that shifting entries in a leaf never moves long members.
//! Not a general string: it never changes.
//! Invariant: `Long` is used only beyond `SHORT_BYTES_MAX`.

use crate::store::class::size_class;

/// Bytes kept in place: what makes a `Member` three words with its length and tag.
const SHORT_BYTES_MAX: usize = 22;

/// The bytes of a member.
#[derive(Clone, Debug)]
pub(super) enum Member {
    /// Length and bytes.
    Short(u8, [u8; SHORT_BYTES_MAX]),
    /// The bytes elsewhere.
    Long(Box<[u8]>),
}

impl Member {
    pub(super) fn new(text: &[u8]) -> Member {
        if text.len() > SHORT_BYTES_MAX {
            return Member::Long(text.into());
        }
        let mut short = [0; SHORT_BYTES_MAX];
        short[..text.len()].copy_from_slice(text);
        Member::Short(text.len() as u8, short)
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Member::Short(len, text) => &text[..usize::from(*len)],
            Member::Long(text) => text,
        }
    }

    /// Bytes outside the `Member` itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Member::Short(..) => 0,
            Member::Long(text) => size_class(text.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_members_keep_their_bytes() {
        assert_eq!(size_of::<Member>(), 24);
        for len in 0..40 {
            let text = vec![len as u8; len];
            let member = Member::new(&text);
            assert_eq!(member.as_slice(), text);
            assert_eq!(member.heap_bytes() > 0, len > SHORT_BYTES_MAX);
        }
    }
}
