//! Calls and answers on one link: ids, deadlines, how many at once.
//!
//! Not the link's life (`link`). Invariant: each call that was accepted ends once, with an answer
//! or an error; an answer to a call that has ended is dropped.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::inbox::{Inbox, Whole};
use super::outbox::{Full, MAX_CALLS, MAX_MESSAGE_BYTES, Outbox, Outcome};
use super::wire::Malformed;
use super::{CallError, CallKind};

/// Most calls of the other side that are being carried out at once: beyond, it is told that we
/// are busy. Raft has a few open, proposals of clients some hundred.
pub const MAX_ANSWERING: usize = 256;

/// A call that the other side made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// To be named in the answer.
    pub id: u64,
    /// What it is about.
    pub kind: CallKind,
    /// How long the caller waits, ms.
    pub patience_ms: u32,
    /// What it says.
    pub body: Vec<u8>,
}

/// A call of ours that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Which, as `Conversation::call` named it.
    pub id: u64,
    /// How.
    pub outcome: Result<Vec<u8>, CallError>,
}

/// Both sides' calls.
#[derive(Default, Debug)]
pub struct Conversation {
    /// What waits to be sent.
    pub outbox: Outbox,
    requests: Inbox,
    answers: Inbox,
    last_id: u64,
    deadlines: HashMap<u64, u64>,
    by_deadline: BTreeSet<(u64, u64)>,
    answering: HashSet<u64>,
}

impl Conversation {
    /// Makes a call that is given up at `deadline_ns`. `Busy`: too many are open or waiting;
    /// `Refused`: longer than `MAX_MESSAGE_BYTES`.
    pub fn call(
        &mut self,
        kind: CallKind,
        body: Vec<u8>,
        now_ns: u64,
        deadline_ns: u64,
    ) -> Result<u64, CallError> {
        if body.len() > MAX_MESSAGE_BYTES {
            let got = body.len();
            let text = format!("a call of {got} bytes; {MAX_MESSAGE_BYTES} are the most");
            return Err(CallError::Refused(text));
        }
        if self.deadlines.len() >= MAX_CALLS {
            return Err(CallError::Busy);
        }
        let id = self.last_id + 1;
        let patience_ms = deadline_ns.saturating_sub(now_ns).div_ceil(1_000_000);
        let patience_ms = u32::try_from(patience_ms).unwrap_or(u32::MAX);
        let queued = self.outbox.push_request(id, kind, patience_ms, body);
        queued.map_err(|Full| CallError::Busy)?;
        self.last_id = id;
        self.deadlines.insert(id, deadline_ns);
        self.by_deadline.insert((deadline_ns, id));
        Ok(id)
    }

    /// Takes a piece of the other side's call. A call that cannot be carried out is answered here.
    pub fn on_request(&mut self, payload: &[u8]) -> Result<Option<Request>, Malformed> {
        let Some(whole) = self.requests.take_request(payload)? else { return Ok(None) };
        let Whole { id, word, patience_ms, body } = whole;
        if self.answering.contains(&id) {
            return Err(Malformed("call id: it is in use"));
        }
        let Some(kind) = CallKind::from_wire(word) else {
            let reason = format!("this node does not know calls of kind {word}");
            self.send_answer(id, Outcome::Refused, reason.into_bytes())?;
            return Ok(None);
        };
        if self.answering.len() >= MAX_ANSWERING {
            self.send_answer(id, Outcome::Busy, Vec::new())?;
            return Ok(None);
        }
        self.answering.insert(id);
        Ok(Some(Request { id, kind, patience_ms, body }))
    }

    /// Answers a call that `on_request` gave out; `None` if there is no answer to give.
    pub fn answer(
        &mut self,
        id: u64,
        answer: Option<Result<Vec<u8>, String>>,
    ) -> Result<(), Malformed> {
        if !self.answering.remove(&id) {
            return Ok(());
        }
        match answer {
            Some(Ok(body)) => self.send_answer(id, Outcome::Done, body),
            Some(Err(reason)) => self.send_answer(id, Outcome::Refused, reason.into_bytes()),
            None => self.send_answer(id, Outcome::Nothing, Vec::new()),
        }
    }

    fn send_answer(&mut self, id: u64, outcome: Outcome, body: Vec<u8>) -> Result<(), Malformed> {
        let queued = self.outbox.push_answer(id, outcome, body);
        queued.map_err(|Full| Malformed("number of calls: their answers are not read"))
    }

    /// Takes a piece of an answer; the call if it has ended by it.
    pub fn on_answer(&mut self, payload: &[u8]) -> Result<Option<Ended>, Malformed> {
        let Some(Whole { id, word, body, .. }) = self.answers.take_answer(payload)? else {
            return Ok(None);
        };
        if id == 0 || id > self.last_id {
            return Err(Malformed("call id: no such call was made"));
        }
        let outcome = match Outcome::from_wire(word).ok_or(Malformed("outcome of a call"))? {
            Outcome::Done => Ok(body),
            Outcome::Refused => {
                Err(CallError::Refused(String::from_utf8_lossy(&body).into_owned()))
            }
            Outcome::Busy => Err(CallError::Busy),
            Outcome::Nothing => Err(CallError::NoAnswer),
        };
        Ok(self.forget(id).then_some(Ended { id, outcome }))
    }

    fn forget(&mut self, id: u64) -> bool {
        let deadline = self.deadlines.remove(&id);
        deadline.is_some_and(|deadline| self.by_deadline.remove(&(deadline, id)))
    }

    /// A call whose time is up.
    pub fn expire(&mut self, now_ns: u64) -> Option<Ended> {
        let (deadline, id) = *self.by_deadline.first()?;
        if deadline > now_ns {
            return None;
        }
        self.forget(id);
        Some(Ended { id, outcome: Err(CallError::NoAnswer) })
    }

    /// When the first call's time is up.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// The link is gone: all calls end, those of which nothing was sent as not made.
    pub fn give_up(&mut self) -> Vec<Ended> {
        let unsent: HashSet<u64> = self.outbox.unsent_calls().collect();
        let open = std::mem::take(&mut self.by_deadline);
        let last_id = self.last_id;
        *self = Conversation { last_id, ..Conversation::default() };
        let error = |id| match unsent.contains(&id) {
            true => CallError::NotConnected,
            false => CallError::NoAnswer,
        };
        open.into_iter().map(|(_, id)| Ended { id, outcome: Err(error(id)) }).collect()
    }
}
