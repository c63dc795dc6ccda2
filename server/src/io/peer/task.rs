//! A link's task: socket <-> link, and what its events mean for the others.
//!
//! Invariant: a link that was added to the state ends with its `Down`, which takes it out again.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Inner;
use super::handle::{Answering, Handle};
use super::state::LinkEnd;
use crate::io::clock;
use crate::peer::conversation::Request;
use crate::peer::link::{Down, Event};
use crate::peer::refusal::{Refusal, RefusalCode};
use crate::peer::{CallError, Notice};
use crate::vital::vital;

/// One read's share, bytes: each link has a buffer of it.
const READ_BYTES: usize = 16 * 1024;
/// Reads in a row before the link's events are looked at.
const READS_AT_ONCE: usize = 16;
/// How long a closed link's last words may take to be read: a socket that is closed while the other
/// side still sends would take them back.
const LINGER: Duration = Duration::from_secs(1);
/// How often a link whose socket takes nothing is looked at: for its calls' deadlines.
const STUCK_LOOK: Duration = Duration::from_millis(10);

/// Serves a link until it ends.
pub(super) async fn run(inner: Arc<Inner>, handle: Arc<Handle>, stream: TcpStream) {
    let read = vec![0; READ_BYTES];
    let mut pipe = Pipe { stream, out: Vec::new(), sent: 0, read, end: None };
    let mut is_lost = false;
    loop {
        let now_ns = clock::now().mono_ns;
        is_lost |= carry_out_events(&inner, &handle, now_ns);
        let is_closing = pipe.take_output(&inner, &handle, now_ns);
        if is_lost {
            return;
        }
        if let Err(error) = pipe.write() {
            pipe.fail(&handle, error);
        }
        if is_closing {
            break;
        }
        if let Err(error) = pipe.wait(&handle).await {
            handle.talk.lock().link.lost(error.to_string());
        }
    }
    // Someone else may have closed it since its events were looked at.
    let is_lost = carry_out_events(&inner, &handle, clock::now().mono_ns);
    if let (false, Ok(_permit)) = (is_lost, inner.lingers.try_acquire()) {
        let _ = timeout(LINGER, pipe.linger()).await;
    }
}

/// Carries out what happened. Is there nobody left to talk to?
fn carry_out_events(inner: &Arc<Inner>, handle: &Arc<Handle>, now_ns: u64) -> bool {
    let mut is_lost = false;
    let poll = || handle.talk.lock().link.poll(now_ns);
    while let Some(event) = poll() {
        is_lost |= matches!(event, Event::Down(Down::Lost(_) | Down::Silent));
        on_event(inner, handle, event);
    }
    is_lost
}

struct Pipe {
    stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    read: Vec<u8>,
    /// How the socket ended, while what came before is looked at.
    end: Option<io::Error>,
}

impl Pipe {
    /// Takes the link's next output if the last is gone. Is the link closing?
    fn take_output(&mut self, inner: &Inner, handle: &Handle, now_ns: u64) -> bool {
        let mut talk = handle.talk.lock();
        if self.out.is_empty() || talk.link.is_closing() {
            talk.link.output(&mut self.out, now_ns);
        }
        inner.counters.add(talk.link.take_traffic());
        talk.link.is_closing()
    }

    /// Waits until there is something to do, and reads what came.
    async fn wait(&mut self, handle: &Handle) -> io::Result<()> {
        let now_ns = clock::now().mono_ns;
        let wait_ns = handle.talk.lock().link.next_deadline_ns().saturating_sub(now_ns);
        let wait = match self.out.is_empty() {
            true => Duration::from_nanos(wait_ns),
            // What is due waits for the socket like everything else, but for calls' deadlines.
            false => Duration::from_nanos(wait_ns).max(STUCK_LOOK),
        };
        if wait.is_zero() || self.end.is_some() {
            tokio::task::yield_now().await;
            return self.read_into(handle);
        }
        tokio::select! {
            ready = self.stream.ready(self.interest()) => {
                ready?;
                self.read_into(handle)
            }
            () = handle.wake.notified() => Ok(()),
            () = sleep(wait) => Ok(()),
        }
    }

    /// Writes as much as the socket takes.
    fn write(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.try_write(&self.out[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out.shrink_to(2 * crate::peer::link::OUTPUT_BYTES);
        self.sent = 0;
        Ok(())
    }

    fn interest(&self) -> Interest {
        match self.out.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        }
    }

    /// The socket takes nothing more. What it gave is looked at before that is told.
    fn fail(&mut self, handle: &Handle, error: io::Error) {
        self.out.clear();
        self.sent = 0;
        let read = self.read_into(handle);
        self.end = Some(read.err().unwrap_or(error));
    }

    /// Reads what came. An end behind bytes is told at the next call: they may say why.
    fn read_into(&mut self, handle: &Handle) -> io::Result<()> {
        if let Some(end) = self.end.take() {
            return Err(end);
        }
        for at in 0..READS_AT_ONCE {
            let end = match self.stream.try_read(&mut self.read) {
                Ok(0) => io::Error::other("the other side closed the connection"),
                Ok(count) => {
                    let now_ns = clock::now().mono_ns;
                    handle.talk.lock().link.receive(&self.read[..count], now_ns);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => error,
            };
            if at == 0 {
                return Err(end);
            }
            self.end = Some(end);
            return Ok(());
        }
        Ok(())
    }

    /// Sends what is left, then reads until the other side has closed, too.
    async fn linger(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out[self.sent..]).await?;
        self.stream.shutdown().await?;
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(&mut self.read) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn on_event(inner: &Arc<Inner>, handle: &Arc<Handle>, event: Event) {
    match event {
        Event::Greeted => judge(inner, handle),
        Event::Up(addresses) => {
            inner.state.lock().learn(&addresses, clock::now().mono_ns);
            up(inner, handle);
            inner.dial.notify_one();
        }
        Event::Addresses(addresses) => {
            inner.state.lock().learn(&addresses, clock::now().mono_ns);
            inner.dial.notify_one();
        }
        Event::Request(request) => answer(inner, handle, request),
        Event::Ended(ended) => {
            let waiting = handle.talk.lock().waiting.remove(&ended.id);
            if let Some(waiting) = waiting {
                let _ = waiting.send(ended.outcome);
            }
        }
        Event::Down(down) => went_down(inner, handle, &down),
    }
}

fn judge(inner: &Inner, handle: &Handle) {
    let (theirs, side, as_stranger) = {
        let talk = handle.talk.lock();
        let link = &talk.link;
        let Some(theirs) = link.theirs().cloned() else { return };
        (theirs, link.side(), link.as_stranger())
    };
    let (judged, addresses) = inner.state.lock().judge(handle.id, side, &theirs, as_stranger);
    match &judged {
        Err(Refusal::NewGeneration { theirs: generation, .. }) => {
            let (node, generation) = (theirs.identity.node, *generation);
            inner.notices.notice(Notice::NewerGeneration { node, generation });
        }
        Err(Refusal::Superseded { theirs: boot, .. }) => {
            inner.notices.notice(Notice::Superseded { boot: *boot });
        }
        _ => {}
    }
    handle.talk.lock().link.judged(judged, &addresses);
}

fn up(inner: &Inner, handle: &Handle) {
    let (theirs, side, as_stranger, dial, on_up) = {
        let mut talk = handle.talk.lock();
        let Some(theirs) = talk.link.theirs().cloned() else { return };
        let (dial, on_up) = (talk.dial.take(), talk.on_up.take());
        (theirs, talk.link.side(), talk.link.as_stranger(), dial, on_up)
    };
    if let Some(on_up) = on_up {
        let _ = on_up.send(Ok(()));
    }
    if as_stranger {
        return;
    }
    let came_up = inner.state.lock().came_up(handle.id, side, &theirs, handle.remote, dial.clone());
    let came_up = match came_up {
        Ok(came_up) => came_up,
        Err(refusal) => {
            let mut talk = handle.talk.lock();
            talk.dial = dial;
            return talk.link.refuse(refusal);
        }
    };
    let status = inner.state.lock().status();
    handle.say(status);
    if let Some(old) = came_up.replaced {
        old.close(Refusal::Duplicate);
    }
    for other in came_up.tell {
        other.talk.lock().link.tell(came_up.address.clone());
        other.wake.notify_one();
    }
    let (node, bus) = came_up.address;
    let boot = theirs.identity.boot;
    tracing::info!(node = theirs.name, %bus, %boot, "linked");
    inner.notices.notice(Notice::LinkUp { node, boot, bus });
}

/// Has a call carried out, for as long as its caller waits.
fn answer(inner: &Arc<Inner>, handle: &Arc<Handle>, request: Request) {
    let Request { id, kind, patience_ms, body } = request;
    let from = handle.talk.lock().link.theirs().map(|hello| hello.identity.node);
    let answering = Answering { handle: handle.clone(), id, answer: None };
    let (Some(from), answers) = (from, inner.answers.clone()) else { return };
    tokio::spawn(vital("answer", async move {
        let patience = Duration::from_millis(u64::from(patience_ms));
        let answer = timeout(patience, answers.answer(from, kind, body)).await;
        answering.give(answer.ok());
    }));
}

fn went_down(inner: &Inner, handle: &Handle, down: &Down) {
    let (end, on_up, waiting) = {
        let mut talk = handle.talk.lock();
        let end = LinkEnd {
            dial: talk.dial.take(),
            hello: talk.link.theirs().cloned(),
            heard_ns: talk.link.heard_ns(),
            round_trip_ns: talk.link.round_trip_ns(),
            status: talk.link.their_status(),
        };
        (end, talk.on_up.take(), std::mem::take(&mut talk.waiting))
    };
    // Their calls have ended before; nobody is left waiting.
    drop(waiting);
    if let Some(on_up) = on_up {
        let _ = on_up.send(Err(match down {
            Down::RefusedBy { by, .. } => CallError::Refused(by.text.clone()),
            Down::Refused(refusal) => CallError::Refused(refusal.to_string()),
            Down::Silent | Down::Lost(_) => CallError::NotConnected,
        }));
    }
    let node = inner.state.lock().went_down(handle, &end);
    inner.dial.notify_one();
    log(inner, handle, &end, down, node.is_some());
    if let Some(node) = node {
        inner.notices.notice(Notice::LinkDown { node, why: down.to_string() });
    }
    if let (Down::RefusedBy { by, is_proven: true }, Some(hello)) = (down, &end.hello)
        && !by.code.is_quiet()
    {
        let (code, detail, text) = (by.code, by.detail, by.text.clone());
        let node = hello.identity.node;
        inner.notices.notice(Notice::RefusedBy { node, code, detail, text });
    }
}

/// One line for a refusal, on either side, and not again for a while.
fn log(inner: &Inner, handle: &Handle, end: &LinkEnd, down: &Down, was_up: bool) {
    let name = end.hello.as_ref().map_or("a node", |hello| &hello.name);
    let (text, code, verb) = match down {
        Down::Refused(refusal) => (refusal.to_string(), refusal.code(), "refused"),
        Down::RefusedBy { by, .. } => (by.text.clone(), by.code, "refused by"),
        other => {
            let remote = handle.remote;
            return match was_up {
                true => tracing::info!(node = name, %remote, why = %other, "link lost"),
                false => tracing::debug!(node = name, %remote, why = %other, "no link"),
            };
        }
    };
    let line = format!("{verb} {name} at {}: {text}", handle.remote.ip().to_canonical());
    let is_loud = !code.is_quiet() && code != RefusalCode::Busy;
    let is_due = || {
        let (repeats, now_ns) = (&mut inner.state.lock().repeats, clock::now().mono_ns);
        match code {
            RefusalCode::OtherCluster => repeats.is_due_if_it_lasts(&line, now_ns),
            _ => repeats.is_due(&line, now_ns),
        }
    };
    if is_loud && is_due() {
        tracing::warn!("{line}");
    } else {
        tracing::debug!("{line}");
    }
}
