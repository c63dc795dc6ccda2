//! A link as others than its task see it: to call over it, answer on it, close it.
//!
//! Invariant: whatever is done to the link, its task is woken.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slots::Endpoint;
use tokio::sync::{Notify, oneshot};

use crate::io::clock;
use crate::peer::book::Target;
use crate::peer::link::Link;
use crate::peer::refusal::Refusal;
use crate::peer::roll::LinkId;
use crate::peer::{CallError, CallKind, PeerStatus};

/// How a call ends.
pub(super) type CallResult = Result<Vec<u8>, CallError>;

/// What is locked together.
pub(super) struct Talk {
    pub(super) link: Link,
    /// Who waits for the end of our calls.
    pub(super) waiting: HashMap<u64, oneshot::Sender<CallResult>>,
    /// Who waits for the link itself.
    pub(super) on_up: Option<oneshot::Sender<Result<(), CallError>>>,
    /// The dial this link came of, until the book is told of its end.
    pub(super) dial: Option<(Target, Endpoint)>,
}

/// The link.
pub(super) struct Handle {
    pub(super) id: LinkId,
    pub(super) remote: SocketAddr,
    pub(super) talk: Mutex<Talk>,
    pub(super) wake: Notify,
}

impl Handle {
    /// Makes a call.
    pub(super) async fn call(
        &self,
        kind: CallKind,
        body: Vec<u8>,
        patience: Duration,
    ) -> CallResult {
        let now_ns = clock::now().mono_ns;
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = now_ns.saturating_add(patience_ns);
        let (tell, end) = oneshot::channel();
        {
            let mut talk = self.talk.lock();
            let id = talk.link.call(kind, body, now_ns, deadline_ns)?;
            talk.waiting.insert(id, tell);
        }
        self.wake.notify_one();
        end.await.unwrap_or(Err(CallError::NoAnswer))
    }

    /// What its pings say from now on.
    pub(super) fn say(&self, status: PeerStatus) {
        self.talk.lock().link.say(status);
    }

    /// Ends the link; the other side is told why.
    pub(super) fn close(&self, refusal: Refusal) {
        self.talk.lock().link.refuse(refusal);
        self.wake.notify_one();
    }

    /// Ends the link without a word.
    pub(super) fn drop_it(&self, why: &str) {
        self.talk.lock().link.lost(why.to_owned());
        self.wake.notify_one();
    }
}

/// A call of the other side that is being carried out. Dropped without an answer, it says so.
pub(super) struct Answering {
    pub(super) handle: Arc<Handle>,
    pub(super) id: u64,
    pub(super) answer: Option<Result<Vec<u8>, String>>,
}

impl Answering {
    /// Gives the answer.
    pub(super) fn give(mut self, answer: Option<Result<Vec<u8>, String>>) {
        self.answer = answer;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.handle.talk.lock().link.answer(self.id, self.answer.take());
        self.handle.wake.notify_one();
    }
}
