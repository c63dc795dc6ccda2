//! Walking a list either way, chunk by chunk. Not a cursor: a list is not changed under it; a
//! reader that must let go of the list clones it.
//! Invariant: `here` is what is left of the chunk before the first of `rest`.

use std::collections::vec_deque;
use std::iter::Rev;
use std::sync::Arc;

use crate::store::pack::{Pack, PackIter};

/// Elements from one to the tail.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    pub(super) here: PackIter<'a>,
    pub(super) rest: vec_deque::Iter<'a, Arc<Pack>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if let Some(element) = self.here.next() {
                return Some(element);
            }
            self.here = self.rest.next()?.iter();
        }
    }
}

/// Elements from one to the head.
#[derive(Clone, Debug)]
pub struct IterRev<'a> {
    pub(super) here: Rev<PackIter<'a>>,
    pub(super) rest: Rev<vec_deque::Iter<'a, Arc<Pack>>>,
}

impl<'a> Iterator for IterRev<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if let Some(element) = self.here.next() {
                return Some(element);
            }
            self.here = self.rest.next()?.iter().rev();
        }
    }
}
