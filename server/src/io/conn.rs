//! One connection's task: socket <-> session.
//!
//! Read, reply and scratch buffers belong to the worker thread; a connection keeps only what a
//! request left over and what the socket did not take. Nothing is borrowed across an await.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slots::SlotId;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::command::client::client_flag;
use crate::command::mailbox::letter;
use crate::command::parking::PARKED_MAX;
use crate::command::{Client, ClientShared, NodeState};
use crate::io::clock;
use crate::session::{Session, Step, Worker};
use crate::slot::Ownership;

/// One read's share of a socket buffer.
const READ_BYTES: usize = 64 * 1024;
/// A leftover buffer is kept between requests only up to this size: part of the 2 KB mark.
const LEFTOVER_KEEP_BYTES: usize = 1024;
/// A client that takes none of its output for this long is cut.
const SLOW_READER_CUT: Duration = Duration::from_secs(60);
/// Unsent output of a client that has not logged in before it is cut.
const UNAUTHENTICATED_OUTPUT_BYTES: usize = 16 * 1024;
/// And how long it may take none of it.
const UNAUTHENTICATED_CUT: Duration = Duration::from_secs(5);
/// First wait for a busy room; doubled up to the second.
const BUSY_WAIT_MIN: Duration = Duration::from_micros(200);
const BUSY_WAIT_MAX: Duration = Duration::from_millis(10);
/// Turns given to other tasks before a busy room is waited for by time.
const BUSY_YIELDS: u32 = 4;

struct Local {
    worker: Worker,
    read: Box<[u8]>,
}

thread_local! {
    static LOCAL: Cell<Option<Box<Local>>> = const { Cell::new(None) };
}

/// Lends the thread's buffers out. They are put back only when `f` returns: what a panic left in
/// them is nobody else's reply.
fn with_local<R>(node: &NodeState, f: impl FnOnce(&mut Local) -> R) -> R {
    let mut local = LOCAL.take().unwrap_or_else(|| {
        Box::new(Local {
            worker: Worker::new(node.stats.add_worker(), clock::random_u64()),
            read: vec![0; READ_BYTES].into_boxed_slice(),
        })
    });
    let result = f(&mut local);
    LOCAL.set(Some(local));
    result
}

/// Why a connection ends. The reason is logged, the client is gone either way.
enum End {
    /// The client, or an orderly close of ours.
    Closed,
    /// A socket error.
    Io(io::Error),
    /// It did not read what it asked for.
    SlowReader,
    /// It sent more than it may without a complete request.
    InputLimit,
    /// CLIENT KILL and the like.
    Killed,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Io(error)
    }
}

/// What a connection that waits for input was woken by.
#[derive(PartialEq, Eq)]
enum Woken {
    Input,
    Gate,
}

struct Conn {
    stream: TcpStream,
    node: Arc<NodeState>,
    session: Session,
    /// Input not used up yet.
    leftover: Vec<u8>,
    /// Output the socket did not take.
    pending: Vec<u8>,
    /// Bytes `leftover` must have before it is worth looking at.
    need: usize,
}

/// Serves a connection until it ends.
pub async fn serve(stream: TcpStream, node: Arc<NodeState>, shared: Arc<ClientShared>) {
    let is_local = stream.peer_addr().is_ok_and(|a| a.ip().to_canonical().is_loopback());
    let authenticated = !node.config.live().requirepass.is_set();
    let client = Client::new(shared.clone(), authenticated, is_local);
    let mut conn = Conn {
        stream,
        node: node.clone(),
        session: Session::new(client),
        leftover: Vec::new(),
        pending: Vec::new(),
        need: 1,
    };
    let end = conn.run().await;
    conn.leave();
    match end {
        End::Closed | End::Killed => {}
        End::Io(error) => tracing::debug!(client = shared.id, %error, "connection lost"),
        End::SlowReader => {
            node.stats.slow_readers_cut.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(client = shared.id, addr = shared.addr, "cut: it does not read");
        }
        End::InputLimit => {
            tracing::warn!(client = shared.id, addr = shared.addr, "cut: query buffer limit");
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // A handler's panic ends its connection, and nothing of it may stay behind.
        if std::thread::panicking() {
            self.leave();
        }
    }
}

impl Conn {
    /// Lets go of what others hold for the client.
    fn leave(&mut self) {
        self.session.close(&self.node);
        self.node.clients.remove(self.session.client.shared.id);
    }

    async fn run(&mut self) -> End {
        loop {
            match self.turn().await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    /// Waits for input, answers it, writes.
    async fn turn(&mut self) -> Result<(), End> {
        if self.wait_readable().await? == Woken::Gate {
            self.release()?;
            return self.drain().await;
        }
        let mut step = self.read_and_process()?;
        let mut busy = Backoff::default();
        loop {
            self.drain().await?;
            step = match step {
                Step::NeedInput { bytes } => {
                    self.need = bytes;
                    return Ok(());
                }
                Step::Close => {
                    self.wait_gate(|session| session.holds_replies()).await?;
                    return Err(End::Closed);
                }
                Step::Flush => {
                    self.wait_gate(|session| !session.may_read()).await?;
                    self.process_leftover()?
                }
                Step::Busy(slot) => {
                    match self.is_parked(slot) {
                        true => self.wait_parked(slot).await?,
                        false => busy.wait().await,
                    }
                    self.check_killed()?;
                    self.process_leftover()?
                }
                Step::Paused => {
                    self.wait_pause().await?;
                    self.process_leftover()?
                }
                Step::Blocked { deadline_ns } => {
                    self.wait_blocked(deadline_ns).await?;
                    self.process_leftover()?
                }
            };
        }
    }

    fn check_killed(&self) -> Result<(), End> {
        match self.session.client.shared.killed.load(Ordering::SeqCst) {
            true => Err(End::Killed),
            false => Ok(()),
        }
    }

    async fn wait_readable(&mut self) -> Result<Woken, End> {
        let shared = self.session.client.shared.clone();
        let may_read = self.session.may_read();
        let stream = &self.stream;
        let ready = std::future::poll_fn(|cx| {
            if let Poll::Ready(letters) = shared.mailbox.poll(letter::KILL | letter::GATE, cx) {
                if letters & letter::KILL != 0 {
                    return Poll::Ready(Err(End::Killed));
                }
                if letters & letter::GATE != 0 {
                    return Poll::Ready(Ok(Woken::Gate));
                }
            }
            if !may_read {
                return Poll::Pending;
            }
            stream.poll_read_ready(cx).map_ok(|()| Woken::Input).map_err(End::Io)
        });
        let idle = self.node.config.live().timeout_s.load();
        if idle == 0 {
            return ready.await;
        }
        match timeout(Duration::from_secs(idle), ready).await {
            Ok(woken) => woken,
            // The limit was changed meanwhile: counts anew by the one that holds now.
            Err(_) if self.node.config.live().timeout_s.load() != idle => Ok(Woken::Input),
            Err(_) => Err(End::Closed),
        }
    }

    /// One read, then whatever it completed. With nothing left over the input is worked on in
    /// the worker's own buffer and never copied.
    fn read_and_process(&mut self) -> Result<Step, End> {
        let node = self.node.clone();
        with_local(&node, |local| {
            let count = match read_once(&mut self.stream, &mut local.read) {
                // It may still be listening: what it asked for is owed.
                Ok(0) if self.session.holds_replies() => return Ok(Step::Close),
                Ok(0) => return Err(End::Closed),
                Ok(count) => count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    return Ok(Step::NeedInput { bytes: self.need });
                }
                Err(e) => return Err(e.into()),
            };
            local.worker.stats.reads.add(1);
            local.worker.stats.input_bytes.add(count as u64);
            if self.leftover.is_empty() {
                let input = &local.read[..count];
                let now = clock::now();
                let shared = &self.session.client.shared;
                shared.active_ns.store(now.mono_ns, Ordering::Relaxed);
                let progress = self.session.process(input, &mut local.worker, &node, now);
                self.leftover.extend_from_slice(&input[progress.consumed..]);
                self.write_out(&mut local.worker)?;
                self.check_input()?;
                return Ok(progress.step);
            }
            self.leftover.extend_from_slice(&local.read[..count]);
            self.check_input()?;
            if self.leftover.len() < self.need {
                return Ok(Step::NeedInput { bytes: self.need });
            }
            self.process_with(&mut local.worker)
        })
    }

    fn process_leftover(&mut self) -> Result<Step, End> {
        let node = self.node.clone();
        with_local(&node, |local| self.process_with(&mut local.worker))
    }

    fn process_with(&mut self, worker: &mut Worker) -> Result<Step, End> {
        let now = clock::now();
        self.session.client.shared.active_ns.store(now.mono_ns, Ordering::Relaxed);
        let progress = self.session.process(&self.leftover, worker, &self.node, now);
        self.session.regain_patience();
        self.leftover.drain(..progress.consumed);
        if self.leftover.is_empty() && self.leftover.capacity() > LEFTOVER_KEEP_BYTES {
            self.leftover = Vec::new();
        }
        self.write_out(worker)?;
        self.check_input()?;
        Ok(progress.step)
    }

    /// Bounds what a client may send ahead of a complete request.
    fn check_input(&self) -> Result<(), End> {
        let bytes = self.leftover.len() as u64;
        self.session.client.shared.input_bytes.store(bytes, Ordering::Relaxed);
        if bytes > self.node.config.live().client_query_buffer_limit.load() {
            return Err(End::InputLimit);
        }
        Ok(())
    }

    /// Watermarks moved: writes the replies that may leave now.
    fn release(&mut self) -> Result<(), End> {
        let node = self.node.clone();
        with_local(&node, |local| self.write_out(&mut local.worker))
    }

    /// Writes the worker's replies; what the socket does not take is kept.
    fn write_out(&mut self, worker: &mut Worker) -> Result<(), End> {
        self.session.hold_back(worker, &self.node);
        if worker.out.is_empty() {
            return Ok(());
        }
        worker.stats.writes.add(1);
        worker.stats.output_bytes.add(worker.out.len() as u64);
        let mut sent = 0;
        if self.pending.is_empty() {
            while sent < worker.out.len() {
                match self.stream.try_write(&worker.out[sent..]) {
                    Ok(n) => sent += n,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => {
                        worker.reset_out();
                        return Err(e.into());
                    }
                }
            }
        }
        self.pending.extend_from_slice(&worker.out[sent..]);
        worker.reset_out();
        Ok(())
    }

    /// Writes what is pending. Until it is out nothing more is read or run: back-pressure. A
    /// client that takes nothing for a minute is cut, sooner if it has not logged in.
    async fn drain(&mut self) -> Result<(), End> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let shared = self.session.client.shared.clone();
        shared.output_bytes.store(self.pending.len() as u64, Ordering::Relaxed);
        let is_stranger = !self.session.client.authenticated;
        if is_stranger && self.pending.len() > UNAUTHENTICATED_OUTPUT_BYTES {
            return Err(End::SlowReader);
        }
        let patience = if is_stranger { UNAUTHENTICATED_CUT } else { SLOW_READER_CUT };
        let hard = self.node.config.live().output_normal.load().hard_bytes;
        if hard != 0 && self.pending.len() as u64 > hard {
            return Err(End::SlowReader);
        }
        let mut sent = 0;
        while sent < self.pending.len() {
            let stream = &self.stream;
            let writable = std::future::poll_fn(|cx| {
                if shared.mailbox.poll(letter::KILL, cx).is_ready() {
                    return Poll::Ready(Err(End::Killed));
                }
                stream.poll_write_ready(cx).map_err(End::Io)
            });
            timeout(patience, writable).await.unwrap_or(Err(End::SlowReader))?;
            match self.stream.try_write(&self.pending[sent..]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.pending = Vec::new();
        shared.output_bytes.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Waits while replies at the gate stand in the way: of closing, or of running more. Input
    /// is not read meanwhile.
    async fn wait_gate(&mut self, waits: impl Fn(&mut Session) -> bool) -> Result<(), End> {
        while waits(&mut self.session) {
            let shared = self.session.client.shared.clone();
            let kinds = letter::KILL | letter::GATE;
            let letters = std::future::poll_fn(|cx| shared.mailbox.poll(kinds, cx)).await;
            if letters & letter::KILL != 0 {
                return Err(End::Killed);
            }
            self.release()?;
            self.drain().await?;
        }
        Ok(())
    }

    /// Is the slot closed for a hand-over, and not merely busy?
    fn is_parked(&self, slot: SlotId) -> bool {
        let rooms = &self.node.rooms;
        rooms.ownership(slot).0 == Ownership::Sealed || self.node.parking.expects(slot)
    }

    /// Waits until the slot's standing changes. After `PARKED_MAX` the client is told to try again.
    async fn wait_parked(&mut self, slot: SlotId) -> Result<(), End> {
        let shared = self.session.client.shared.clone();
        let node = self.node.clone();
        let until = Instant::now() + PARKED_MAX;
        let result = loop {
            node.parking.park(slot, &shared);
            if !self.is_parked(slot) {
                break Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.wait_letter(Some(left)).await {
                Err(end) => break Err(end),
                Ok(Some(letters)) if letters & letter::KILL != 0 => break Err(End::Killed),
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.session.lose_patience();
                    break Ok(());
                }
            }
        };
        node.parking.leave(slot, &shared);
        result
    }

    /// Waits for the end of CLIENT PAUSE.
    async fn wait_pause(&mut self) -> Result<(), End> {
        let shared = self.session.client.shared.clone();
        shared.set_flag(client_flag::PAUSED, true);
        self.node.stats.blocked_clients.fetch_add(1, Ordering::Relaxed);
        let node = self.node.clone();
        let result = loop {
            if !node.pause.is_active() {
                break Ok(());
            }
            let left = node.pause.until_ns().saturating_sub(clock::now().mono_ns);
            let wait = self.wait_letter(Some(Duration::from_nanos(left)));
            match wait.await {
                Err(end) => break Err(end),
                Ok(Some(letters)) if letters & letter::KILL != 0 => break Err(End::Killed),
                Ok(Some(letters)) if letters & letter::UNPAUSED != 0 => break Ok(()),
                Ok(Some(_)) => {}
                Ok(None) => {
                    node.tick_pause(clock::now());
                    break Ok(());
                }
            }
        };
        shared.set_flag(client_flag::PAUSED, false);
        self.node.stats.blocked_clients.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Waits until the blocked client is served, unblocked, or out of time.
    async fn wait_blocked(&mut self, deadline_ns: Option<u64>) -> Result<(), End> {
        loop {
            let left =
                deadline_ns.map(|at| Duration::from_nanos(at.saturating_sub(clock::now().mono_ns)));
            let letters = self.wait_letter(left).await?.unwrap_or(0);
            if letters & letter::KILL != 0 {
                return Err(End::Killed);
            }
            let node = self.node.clone();
            let ended = with_local(&node, |local| {
                let worker = &mut local.worker;
                let ended = self.session.resume(letters, clock::now(), worker, &node);
                self.write_out(worker).map(|()| ended)
            })?;
            if ended {
                return self.drain().await;
            }
        }
    }

    /// Waits for a letter, for at most `limit` (`None` back); meanwhile takes input in, so that
    /// a closed connection is noticed.
    async fn wait_letter(&mut self, limit: Option<Duration>) -> Result<Option<u32>, End> {
        let deadline = limit.map(|l| Instant::now() + l);
        loop {
            let shared = self.session.client.shared.clone();
            let stream = &self.stream;
            let may_read = (self.leftover.len() as u64)
                < self.node.config.live().client_query_buffer_limit.load();
            let event = std::future::poll_fn(|cx| {
                if let Poll::Ready(letters) = shared.mailbox.poll(u32::MAX, cx) {
                    return Poll::Ready(Ok(Some(letters)));
                }
                if may_read {
                    return stream.poll_read_ready(cx).map_ok(|()| None).map_err(End::Io);
                }
                Poll::Pending
            });
            let letters = match deadline {
                None => event.await?,
                Some(at) => match tokio::time::timeout_at(at, event).await {
                    Ok(event) => event?,
                    Err(_) => return Ok(None),
                },
            };
            if let Some(letters) = letters {
                if letters & letter::KILL == 0 && letters & letter::GATE != 0 {
                    self.release()?;
                    // Nothing else would write what the socket does not take now.
                    self.drain().await?;
                }
                if letters != letter::GATE {
                    return Ok(Some(letters));
                }
                continue;
            }
            self.take_input()?;
        }
    }

    /// Reads ahead of a client that waits.
    fn take_input(&mut self) -> Result<(), End> {
        let node = self.node.clone();
        with_local(&node, |local| match read_once(&mut self.stream, &mut local.read) {
            Ok(0) => Err(End::Closed),
            Ok(count) => {
                local.worker.stats.input_bytes.add(count as u64);
                self.leftover.extend_from_slice(&local.read[..count]);
                self.check_input()
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(e) => Err(e.into()),
        })
    }
}

/// Reads what has come, without waiting. Not `try_read`: after it the socket counts as readable
/// until a read finds nothing, so each request would cost a second call of the system. A read that
/// does not fill the buffer is known to have emptied the socket here.
fn read_once(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(buffer);
    // Nobody is to be woken: whoever waits for input asks by itself (`wait_readable`).
    let mut nobody = Context::from_waker(Waker::noop());
    match Pin::new(stream).poll_read(&mut nobody, &mut buffer) {
        Poll::Ready(read) => read.map(|()| buffer.filled().len()),
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

/// Waiting for a busy room: a few turns for others, then time, doubling.
#[derive(Default)]
struct Backoff {
    tries: u32,
}

impl Backoff {
    async fn wait(&mut self) {
        self.tries += 1;
        if self.tries <= BUSY_YIELDS {
            tokio::task::yield_now().await;
            return;
        }
        let doublings = (self.tries - BUSY_YIELDS).min(10);
        sleep((BUSY_WAIT_MIN * 2_u32.pow(doublings)).min(BUSY_WAIT_MAX)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::testing::TestNode;

    #[test]
    fn what_a_panic_left_in_the_buffers_reaches_nobody() {
        let test = TestNode::new(&[]);
        let broken = || {
            with_local(&test.node, |local| {
                local.worker.out.extend_from_slice(b"+half a re");
                panic!("a broken handler");
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(broken)).is_err());
        with_local(&test.node, |local| assert!(local.worker.out.is_empty()));
    }
}
