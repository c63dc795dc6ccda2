//! How members and their scores are written: flat pairs in RESP2, pairs of their own in RESP3.
//! Not the choice of members. Invariant: a header announces exactly what the entries fill.

use crate::resp::{Proto, Reply};

/// What of a member is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// The member.
    Members,
    /// The member and its score.
    Scores,
}

impl Show {
    /// Announces `count` members.
    pub(super) fn header(self, reply: &mut Reply<'_>, count: usize) {
        match (self, reply.proto) {
            (Show::Scores, Proto::Resp2) => reply.array(count * 2),
            _ => reply.array(count),
        }
    }

    /// Writes one of the members announced.
    #[inline]
    pub(super) fn entry(self, reply: &mut Reply<'_>, member: &[u8], score: f64) {
        match self {
            Show::Members => reply.bulk(member),
            Show::Scores => {
                if reply.proto == Proto::Resp3 {
                    reply.array(2);
                }
                reply.bulk(member);
                reply.double(score);
            }
        }
    }
}
