//! Where a command's keys are among its words.

use smallvec::SmallVec;

use crate::command::Args;
use crate::store::number::parse_i64;

/// Word indexes of keys.
pub type KeyIndexes = SmallVec<[usize; 8]>;

/// Key positions of a command.
#[derive(Clone, Copy)]
pub enum KeySpec {
    /// No keys.
    None,
    /// Words `first..=last` (negative: from the end) in steps.
    Range {
        /// First key.
        first: usize,
        /// Last key; -1 = the last word.
        last: i32,
        /// Distance between keys.
        step: usize,
    },
    /// Word `at` says how many keys follow it; `dest` is a key before it.
    Counted {
        /// Word with the number of keys.
        at: usize,
        /// A destination key's word.
        dest: Option<usize>,
    },
    /// Found by the command's own grammar. `None` = the words are no valid request.
    Custom(fn(&Args<'_>) -> Option<KeyIndexes>),
}

impl KeySpec {
    /// One key, word 1.
    pub const ONE: KeySpec = KeySpec::Range { first: 1, last: 1, step: 1 };
    /// Two keys, words 1 and 2.
    pub const TWO: KeySpec = KeySpec::Range { first: 1, last: 2, step: 1 };
    /// Every word from 1 on.
    pub const ALL: KeySpec = KeySpec::Range { first: 1, last: -1, step: 1 };
    /// Words 1 to the last but one.
    pub const ALL_BUT_LAST: KeySpec = KeySpec::Range { first: 1, last: -2, step: 1 };

    /// Exactly one key at word 1: the hot case.
    #[inline]
    pub fn is_one(&self) -> bool {
        matches!(self, KeySpec::Range { first: 1, last: 1, step: 1 })
    }

    /// Word indexes of the keys of a request; `None` if its words are no valid request. An
    /// invalid number of keys gives none: the handler answers with its own error.
    pub fn find(&self, args: &Args<'_>) -> Option<KeyIndexes> {
        match *self {
            KeySpec::None => Some(KeyIndexes::new()),
            KeySpec::Range { first, last, step } => {
                let end = if last < 0 {
                    args.len().checked_sub(last.unsigned_abs() as usize)?
                } else {
                    last as usize
                };
                if end >= args.len() {
                    return None;
                }
                Some((first..=end).step_by(step).collect())
            }
            KeySpec::Counted { at, dest } => {
                let count = args.opt(at).and_then(parse_i64)?;
                let count = usize::try_from(count).ok().filter(|n| *n > 0)?;
                let end = at.checked_add(count).filter(|end| *end < args.len())?;
                Some(dest.into_iter().chain(at + 1..=end).collect())
            }
            KeySpec::Custom(find) => find(args),
        }
    }

    /// COMMAND's first key, last key and step.
    pub fn legacy(&self) -> (i64, i64, i64) {
        match *self {
            KeySpec::Range { first, last, step } => (first as i64, last as i64, step as i64),
            KeySpec::Counted { dest: Some(d), .. } => (d as i64, d as i64, 1),
            _ => (0, 0, 0),
        }
    }

    /// Can only the words themselves tell where the keys are?
    pub fn is_movable(&self) -> bool {
        matches!(self, KeySpec::Counted { .. } | KeySpec::Custom(_))
    }
}
