//! One shelf's history: what was there, what was acknowledged since, what has no answer.
//!
//! ```text
//!   base --deed--deed--...--deed--> sure --deed--deed (sent, no answer)
//!          done, each with the time of its answer     pending
//! ```
//! Invariant: all deeds of a shelf come from one connection after the other, so their order is
//! known; after a crash the shelf is what it was behind one of them.

use super::shelf::{Deed, Shelf};
use crate::resp::Value;
use std::collections::VecDeque;
use std::time::Instant;

/// These begin the error of a write that was refused before it was executed.
const REFUSALS: [&str; 6] = ["MISCONF", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "OOM", "EXECABORT"];

/// Whether a server says so that it did nothing, also of what would only read.
pub(super) fn is_refusal(reply: &Value) -> bool {
    REFUSALS.iter().any(|start| reply.is_error(start))
}

/// The history of one shelf.
#[derive(Clone, Debug)]
pub struct Ledger {
    tag: String,
    base: Shelf,
    done: Vec<(Deed, Instant)>,
    sure: Shelf,
    pending: VecDeque<Deed>,
}

/// How the answer to a deed was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Acknowledged, and the reply is the one that the history demands.
    Done,
    /// Not executed.
    Refused,
    /// What must not be.
    Fault(String),
}

/// What a look at a shelf after a crash tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All that was promised is there. `lost` acknowledged deeds that were not promised are not,
    /// the oldest acknowledged then.
    Holds {
        /// How many.
        lost: u64,
        /// The answer to the oldest.
        oldest: Option<Instant>,
    },
    /// Acknowledged and promised deeds are missing.
    Lost {
        /// How many, promised or not.
        lost: u64,
        /// What is there instead.
        why: String,
    },
    /// It never was like this.
    Never(String),
}

impl Ledger {
    /// An empty shelf.
    pub fn new(tag: String) -> Self {
        Self {
            tag,
            base: Shelf::default(),
            done: Vec::new(),
            sure: Shelf::default(),
            pending: VecDeque::new(),
        }
    }

    /// The hash tag, braces and all.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// What is there as far as is known.
    pub fn sure(&self) -> &Shelf {
        &self.sure
    }

    /// Deeds without an answer.
    pub fn unknown(&self) -> usize {
        self.pending.len()
    }

    /// A deed that is about to be sent.
    pub fn send(&mut self, deed: Deed) {
        self.pending.push_back(deed);
    }

    /// The replies to the oldest deed without an answer.
    pub fn answer(&mut self, replies: &[Value], now: Instant) -> Answer {
        let (Some(deed), Some(last)) = (self.pending.pop_front(), replies.last()) else {
            return Answer::Fault("a reply nobody waits for".into());
        };
        if is_refusal(last) {
            return Answer::Refused;
        }
        let before = self.sure.clone();
        let wanted = deed.apply(&mut self.sure);
        if *last == wanted {
            self.done.push((deed, now));
            return Answer::Done;
        }
        self.sure = before;
        let text = format!("{}: {deed:?} gave {last:?} instead of {wanted:?}", self.tag);
        // What it did nobody knows; a look at the shelf tells.
        self.pending.push_front(deed);
        Answer::Fault(text.chars().take(400).collect())
    }

    /// How many deeds were answered by then.
    pub fn done_before(&self, deadline: Instant) -> usize {
        self.done.iter().take_while(|(_, at)| *at <= deadline).count()
    }

    /// How many deeds were acknowledged since the last look.
    pub fn done(&self) -> usize {
        self.done.len()
    }

    /// Judges what a look at the shelf found, if the first `promised` deeds must be there, and goes
    /// on from there. The look was taken between two moments of the wall clock.
    pub fn judge(&mut self, found: Shelf, promised: usize, between_ms: (u64, u64)) -> Verdict {
        let verdict = self.compare(&found, promised, between_ms);
        (self.base, self.sure) = (found.clone(), found);
        self.done.clear();
        self.pending.clear();
        verdict
    }

    fn compare(&self, found: &Shelf, promised: usize, (from, to): (u64, u64)) -> Verdict {
        let fits = |known: &Shelf| found.may_be(known, from, to);
        // The usual case, without the long way.
        let mut known = self.sure.clone();
        if fits(&known) {
            return Verdict::Holds { lost: 0, oldest: None };
        }
        for deed in &self.pending {
            deed.apply(&mut known);
            if fits(&known) {
                return Verdict::Holds { lost: 0, oldest: None };
            }
        }
        let mut known = self.base.clone();
        let mut last_fit = fits(&known).then_some(0);
        for (at, (deed, _)) in self.done.iter().enumerate() {
            deed.apply(&mut known);
            if fits(&known) {
                last_fit = Some(at + 1);
            }
        }
        let why = || format!("{}: {}", self.tag, found.differences(&self.sure));
        match last_fit {
            None if found.pair[0] != found.pair[1] => {
                Verdict::Never(format!("half of an EXEC: {}", why()))
            }
            None => Verdict::Never(why()),
            Some(at) => {
                let lost = (self.done.len() - at) as u64;
                match at < promised {
                    true => Verdict::Lost { lost, why: why() },
                    false => Verdict::Holds { lost, oldest: self.done.get(at).map(|(_, t)| *t) },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: (u64, u64) = (1_000_000, 1_000_001);

    /// A history of these deeds, `answered` of them.
    fn history(deeds: &[Deed], answered: usize) -> Ledger {
        let mut ledger = Ledger::new("{x}".into());
        deeds.iter().for_each(|deed| ledger.send(deed.clone()));
        let mut shelf = Shelf::default();
        for deed in &deeds[..answered] {
            let reply = deed.apply(&mut shelf);
            assert_eq!(ledger.answer(&[reply], Instant::now()), Answer::Done);
        }
        ledger
    }

    fn after(deeds: &[Deed]) -> Shelf {
        let mut shelf = Shelf::default();
        deeds.iter().for_each(|deed| drop(deed.apply(&mut shelf)));
        shelf
    }

    fn pushes() -> Vec<Deed> {
        (0..6).map(|n| Deed::Push(vec![b'0' + n])).collect()
    }

    #[test]
    fn what_has_no_answer_may_be_there_or_not_but_only_in_order() {
        let deeds = pushes();
        for there in 3..=6 {
            let found = after(&deeds[..there]);
            let verdict = history(&deeds, 3).judge(found, 3, NOW);
            assert_eq!(verdict, Verdict::Holds { lost: 0, oldest: None }, "{there}");
        }
        let mut out_of_order = after(&deeds[..3]);
        deeds[4].apply(&mut out_of_order);
        assert!(matches!(history(&deeds, 3).judge(out_of_order, 3, NOW), Verdict::Never(_)));
    }

    #[test]
    fn an_acknowledged_deed_that_is_missing_is_lost_if_it_was_promised() {
        let deeds = pushes();
        let lost = history(&deeds, 4).judge(after(&deeds[..2]), 3, NOW);
        assert!(matches!(lost, Verdict::Lost { lost: 2, .. }), "{lost:?}");
        let allowed = history(&deeds, 4).judge(after(&deeds[..2]), 2, NOW);
        assert!(matches!(allowed, Verdict::Holds { lost: 2, oldest: Some(_) }), "{allowed:?}");
    }

    #[test]
    fn what_was_read_once_stays() {
        let deeds = pushes();
        let mut ledger = history(&deeds, 1);
        let verdict = ledger.judge(after(&deeds[..5]), 1, NOW);
        assert_eq!(verdict, Verdict::Holds { lost: 0, oldest: None });
        assert!(matches!(ledger.judge(after(&deeds[..4]), 0, NOW), Verdict::Never(_)));
    }

    #[test]
    fn half_of_an_exec_is_named() {
        let deeds = [Deed::PairExec(b"1".to_vec()), Deed::PairExec(b"2".to_vec())];
        let mut found = after(&deeds[..1]);
        found.pair[1] = Some(b"2".to_vec());
        match history(&deeds, 1).judge(found, 1, NOW) {
            Verdict::Never(why) => assert!(why.starts_with("half of an EXEC: {x}: q is"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refused_deed_must_not_have_happened() {
        let deeds = pushes();
        let mut ledger = history(&deeds[..2], 1);
        let refused = [Value::Error("MISCONF no room".into())];
        assert_eq!(ledger.answer(&refused, Instant::now()), Answer::Refused);
        assert!(matches!(ledger.judge(after(&deeds[..2]), 1, NOW), Verdict::Never(_)));
    }

    #[test]
    fn a_reply_that_the_history_does_not_give_is_a_fault() {
        let mut ledger = history(&[Deed::Count, Deed::Count], 1);
        let answer = ledger.answer(&[Value::Int(3)], Instant::now());
        assert!(matches!(answer, Answer::Fault(_)), "{answer:?}");
    }

    #[test]
    fn a_brief_key_goes_when_its_time_is_up_and_not_before() {
        let deed = [Deed::Brief(b"v".to_vec(), NOW.0 + 500)];
        let gone = Shelf::default();
        let early = history(&deed, 1).judge(gone.clone(), 1, NOW);
        assert!(matches!(early, Verdict::Lost { .. }), "{early:?}");
        let later = (NOW.0 + 600, NOW.0 + 601);
        let verdict = history(&deed, 1).judge(gone, 1, later);
        assert_eq!(verdict, Verdict::Holds { lost: 0, oldest: None });
        let late = history(&deed, 1).judge(after(&deed), 1, later);
        assert!(matches!(late, Verdict::Never(_)), "{late:?}");
    }
}
