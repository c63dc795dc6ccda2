//! One link: greeting, calls, pings. No socket in it.
//!
//! After `receive`, `tick` or any call: `poll` until it has no more events (an `Event::Greeted`
//! is answered by `judged` before the next `poll`), then send what `output` gives, then wait for
//! bytes or `next_deadline_ns`. After `is_closing` and the last output the socket is closed.
//!
//! Invariant: before `Up` no frame but the greeting's is read, and each at its turn.

use std::collections::VecDeque;
use std::fmt;

use super::conversation::{Conversation, Ended, Request};
use super::frame::{
    Decoder, Frame, FrameKind, MAGIC, MAX_GREETING_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES, count_frames,
    put_frame,
};
use super::greeting::{
    Address, Exchange, Hello, MAX_TOLD_ADDRESSES, RefusedBy, Secret, Side, decode_addresses,
    encode_addresses,
};
use super::identity::{PeerStatus, Traffic};
use super::judge::{Standing, judge_terms};
use super::refusal::{Refusal, SecretFault};
use super::wire::{Malformed, Reader, put_block};
use super::{CallError, CallKind};

/// How long a greeting may take, ns: three round trips across the world, and a busy machine.
pub const GREETING_LIMIT_NS: u64 = 3_000_000_000;
/// Time between pings, ns (PROTOCOL 5: the liveness frame).
pub const PING_EVERY_NS: u64 = 100_000_000;
/// A link on which nothing came for so long is closed, ns: a new connection gets through a healed
/// network sooner than TCP's next retransmission.
pub const SILENCE_LIMIT_NS: u64 = 3_000_000_000;
/// How long a stranger's link may last, ns: one MEET with a change of the table in it.
pub const STRANGER_LIMIT_NS: u64 = 60_000_000_000;
/// Output is given in portions of about this size, bytes: one write each.
pub const OUTPUT_BYTES: usize = 256 * 1024;

/// Where a link stands.
///
/// ```text
///           their Hello      their Proof         judged: let in     their Welcome
///   Hello -------------> Proof --------> Judging -----------> Welcome ---------> Up
///     |                    |                |                    |               |
///     +--------------------+----------------+--------------------+---------------+
///     |   bytes that are no frames, a frame out of turn, too late, silent,
///     v   refused by us or by them, the socket lost
///   Closing
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Waits for the other side's Hello.
    Hello,
    /// Waits for its Proof.
    Proof,
    /// Waits for our own judgement.
    Judging,
    /// Let in by us, waits to be let in.
    Welcome,
    /// Both have let each other in.
    Up,
    /// Sends what is left and ends.
    Closing,
}

/// Why a link ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Down {
    /// We refused it, or closed it with this reason.
    Refused(Refusal),
    /// The other side did.
    RefusedBy {
        /// Its word.
        by: RefusedBy,
        /// Had it proved that it knows the secret? Otherwise anyone may have said so.
        is_proven: bool,
    },
    /// Nothing came for `SILENCE_LIMIT_NS`.
    Silent,
    /// The socket ended, with this error.
    Lost(String),
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Down::Refused(refusal) => write!(f, "closed by this node: {refusal}"),
            Down::RefusedBy { by, .. } => write!(f, "closed by the other node: {}", by.text),
            Down::Silent => write!(f, "silent for {} s", SILENCE_LIMIT_NS / 1_000_000_000),
            Down::Lost(error) => f.write_str(error),
        }
    }
}

/// What happened on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The other side showed who it is, and that it knows the secret. `judged` comes next.
    Greeted,
    /// Both sides have let each other in; addresses of members that the other side knows.
    Up(Vec<Address>),
    /// More of them.
    Addresses(Vec<Address>),
    /// A call to carry out; `answer` it.
    Request(Request),
    /// A call of ours has ended.
    Ended(Ended),
    /// The link has ended. The last event.
    Down(Down),
}

/// What we say on a link, and how we greet.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Our greeting, with a challenge of its own.
    pub hello: Hello,
    /// The cluster's secret.
    pub secret: Option<Secret>,
}

/// The link.
#[derive(Debug)]
pub struct Link {
    side: Side,
    state: State,
    terms: Terms,
    our_bytes: Vec<u8>,
    theirs: Option<Hello>,
    their_bytes: Vec<u8>,
    is_proven: bool,
    standing: Standing,
    decoder: Decoder,
    control: Vec<u8>,
    conversation: Conversation,
    events: VecDeque<Event>,
    opened_ns: u64,
    heard_ns: u64,
    next_ping_ns: u64,
    pong_due: Option<u64>,
    told: Vec<Address>,
    round_trip_ns: Option<u64>,
    status: PeerStatus,
    their_status: PeerStatus,
    /// Not yet told of by `take_traffic`.
    traffic: Traffic,
}

impl Link {
    /// A link on a socket that was just connected. The dialer speaks first.
    pub fn new(side: Side, mut terms: Terms, now_ns: u64) -> Link {
        terms.hello.has_secret = terms.secret.is_some();
        let our_bytes = terms.hello.encode();
        let mut control = MAGIC.to_vec();
        if side == Side::Dialer {
            put_frame(&mut control, FrameKind::Hello, &[&our_bytes]);
        }
        Link {
            side,
            state: State::Hello,
            terms,
            our_bytes,
            theirs: None,
            their_bytes: Vec::new(),
            is_proven: false,
            standing: Standing::Stranger,
            decoder: Decoder::default(),
            control,
            conversation: Conversation::default(),
            events: VecDeque::new(),
            opened_ns: now_ns,
            heard_ns: now_ns,
            next_ping_ns: now_ns,
            pong_due: None,
            told: Vec::new(),
            round_trip_ns: None,
            status: PeerStatus::default(),
            their_status: PeerStatus::default(),
            traffic: Traffic::default(),
        }
    }

    /// Which side we are.
    pub const fn side(&self) -> Side {
        self.side
    }

    /// Where it stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Is the last output the last?
    pub fn is_closing(&self) -> bool {
        self.state == State::Closing
    }

    /// The other side's greeting, once it came.
    pub const fn theirs(&self) -> Option<&Hello> {
        self.theirs.as_ref()
    }

    /// Did the dialer ask for a stranger's link?
    pub fn as_stranger(&self) -> bool {
        match self.side {
            Side::Dialer => self.terms.hello.as_stranger,
            Side::Acceptor => self.theirs.as_ref().is_some_and(|theirs| theirs.as_stranger),
        }
    }

    /// When the socket was connected.
    pub const fn opened_ns(&self) -> u64 {
        self.opened_ns
    }

    /// Bytes of calls and answers that wait to be sent.
    pub const fn unsent_bytes(&self) -> usize {
        self.conversation.outbox.waiting_bytes()
    }

    /// The frames since this was asked last.
    pub fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    /// When the last bytes came.
    pub const fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Last ping round trip.
    pub const fn round_trip_ns(&self) -> Option<u64> {
        self.round_trip_ns
    }

    /// What the other side's last ping said.
    pub const fn their_status(&self) -> PeerStatus {
        self.their_status
    }

    /// What our pings say from now on.
    pub fn say(&mut self, status: PeerStatus) {
        self.status = status;
    }

    /// Tells the other side where a member is reached. What does not fit one frame is dropped: the
    /// table knows, too.
    pub fn tell(&mut self, address: Address) {
        self.told.retain(|(node, _)| *node != address.0);
        if self.told.len() < MAX_TOLD_ADDRESSES {
            self.told.push(address);
        }
    }

    /// Bytes came.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64) {
        self.heard_ns = now_ns;
        if self.state != State::Closing {
            self.decoder.feed(bytes);
        }
    }

    /// The next event, if any.
    pub fn poll(&mut self, now_ns: u64) -> Option<Event> {
        self.look_at_the_clock(now_ns);
        while self.events.is_empty() && !matches!(self.state, State::Judging | State::Closing) {
            let max_bytes = match self.state {
                State::Hello | State::Proof => MAX_GREETING_PAYLOAD_BYTES,
                _ => MAX_PAYLOAD_BYTES,
            };
            let took = match self.decoder.next(max_bytes) {
                Ok(Some(frame)) => {
                    self.traffic.received += 1;
                    self.take(frame, now_ns)
                }
                Ok(None) => break,
                Err(error) => Err(Refusal::Broken(error.to_string())),
            };
            if let Err(refusal) = took {
                self.refuse(refusal);
            }
        }
        self.events.pop_front()
    }

    fn look_at_the_clock(&mut self, now_ns: u64) {
        let passed = |since_ns: u64, limit_ns| now_ns >= since_ns.saturating_add(limit_ns);
        match self.state {
            State::Closing => {}
            State::Up if passed(self.heard_ns, SILENCE_LIMIT_NS) => self.end(Down::Silent),
            State::Up if self.is_stranger() && passed(self.opened_ns, STRANGER_LIMIT_NS) => {
                self.refuse(Refusal::Late);
            }
            State::Up => {
                while let Some(ended) = self.conversation.expire(now_ns) {
                    self.events.push_back(Event::Ended(ended));
                }
            }
            _ if passed(self.opened_ns, GREETING_LIMIT_NS) => self.refuse(Refusal::Late),
            _ => {}
        }
    }

    fn is_stranger(&self) -> bool {
        self.standing == Standing::Stranger
    }

    fn take(&mut self, frame: Frame, now_ns: u64) -> Result<(), Refusal> {
        let Frame { kind, payload } = frame;
        match (self.state, kind) {
            (_, FrameKind::Refused) => {
                let by = RefusedBy::decode(&payload).map_err(broken)?;
                self.end(Down::RefusedBy { by, is_proven: self.is_proven });
                Ok(())
            }
            (State::Hello, FrameKind::Hello) => self.on_hello(payload),
            (State::Proof, FrameKind::Proof) => self.on_proof(&payload),
            (State::Welcome, FrameKind::Welcome) => self.on_welcome(&payload, now_ns),
            (State::Up, _) => self.on_frame(kind, &payload, now_ns),
            (state, kind) => {
                Err(Refusal::Broken(format!("a {kind:?} frame came where a {state:?} was due")))
            }
        }
    }

    fn on_hello(&mut self, payload: Vec<u8>) -> Result<(), Refusal> {
        let theirs = Hello::decode(&payload).map_err(broken)?;
        judge_terms(&theirs, self.terms.hello.versions, self.terms.secret.is_some())?;
        self.theirs = Some(theirs);
        self.their_bytes = payload;
        match self.side {
            Side::Acceptor => {
                put_frame(&mut self.control, FrameKind::Hello, &[&self.our_bytes]);
            }
            Side::Dialer => self.send_proof(),
        }
        self.state = State::Proof;
        Ok(())
    }

    fn exchange(&self) -> Exchange<'_> {
        match self.side {
            Side::Dialer => Exchange { dialer: &self.our_bytes, acceptor: &self.their_bytes },
            Side::Acceptor => Exchange { dialer: &self.their_bytes, acceptor: &self.our_bytes },
        }
    }

    /// Without a secret the proof is empty.
    fn send_proof(&mut self) {
        let secret = self.terms.secret.as_ref();
        let proof = secret.map_or_else(Vec::new, |key| self.exchange().prove(key, self.side));
        put_frame(&mut self.control, FrameKind::Proof, &[&proof]);
    }

    fn on_proof(&mut self, proof: &[u8]) -> Result<(), Refusal> {
        let secret = self.terms.secret.as_ref();
        let side = self.side.other();
        if secret.is_some_and(|key| !self.exchange().is_proven(key, side, proof)) {
            return Err(Refusal::Secret(SecretFault::Wrong));
        }
        self.is_proven = true;
        // The acceptor shows itself only now, and before it may refuse: its refusals count.
        if self.side == Side::Acceptor {
            self.send_proof();
        }
        self.state = State::Judging;
        self.events.push_back(Event::Greeted);
        Ok(())
    }

    /// Our judgement on `Event::Greeted`; who is let in is told `addresses`.
    pub fn judged(&mut self, judgement: Result<Standing, Refusal>, addresses: &[Address]) {
        if self.state != State::Judging {
            return;
        }
        match judgement {
            Ok(standing) => {
                self.standing = standing;
                let mut payload = Vec::new();
                encode_addresses(&mut payload, addresses);
                put_frame(&mut self.control, FrameKind::Welcome, &[&payload]);
                self.state = State::Welcome;
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn on_welcome(&mut self, payload: &[u8], now_ns: u64) -> Result<(), Refusal> {
        let addresses = decode_addresses(&mut Reader::new(payload)).map_err(broken)?;
        self.state = State::Up;
        self.next_ping_ns = now_ns;
        self.events.push_back(Event::Up(addresses));
        Ok(())
    }

    fn on_frame(&mut self, kind: FrameKind, payload: &[u8], now_ns: u64) -> Result<(), Refusal> {
        let event = match kind {
            FrameKind::Ping => {
                self.on_ping(payload).map_err(broken)?;
                None
            }
            FrameKind::Pong => {
                let sent_ns = Reader::new(payload).u64("echo").map_err(broken)?;
                self.round_trip_ns = Some(now_ns.saturating_sub(sent_ns));
                None
            }
            FrameKind::Request => {
                let request = self.conversation.on_request(payload).map_err(broken)?;
                if request.as_ref().is_some_and(|r| self.is_stranger() && r.kind != CallKind::Meet)
                {
                    let text = "a stranger's link carries Meet only".to_owned();
                    return Err(Refusal::Broken(text));
                }
                request.map(Event::Request)
            }
            FrameKind::Answer => {
                self.conversation.on_answer(payload).map_err(broken)?.map(Event::Ended)
            }
            FrameKind::Addresses => {
                let addresses = decode_addresses(&mut Reader::new(payload)).map_err(broken)?;
                Some(Event::Addresses(addresses))
            }
            FrameKind::Hello | FrameKind::Proof | FrameKind::Welcome | FrameKind::Refused => {
                let text = format!("a {kind:?} frame came after the greeting");
                return Err(Refusal::Broken(text));
            }
        };
        self.events.extend(event);
        Ok(())
    }

    /// The time to echo, then the status as a block: later versions make it longer.
    fn on_ping(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let mut from = Reader::new(payload);
        self.pong_due = Some(from.u64("time of a ping")?);
        let mut status = Reader::new(from.block("status")?);
        self.their_status = PeerStatus {
            table_version: status.u64("table version")?,
            keys: status.u64("count of keys")?,
            uptime_ms: status.u64("uptime")?,
        };
        Ok(())
    }

    /// Makes a call. `NotConnected` unless the link is up; `Busy` if too many wait; `Refused` if it
    /// is too long, or not for a stranger.
    pub fn call(
        &mut self,
        kind: CallKind,
        body: Vec<u8>,
        now_ns: u64,
        deadline_ns: u64,
    ) -> Result<u64, CallError> {
        if self.state != State::Up {
            return Err(CallError::NotConnected);
        }
        if self.is_stranger() && kind != CallKind::Meet {
            return Err(CallError::Refused("a stranger's link carries Meet only".to_owned()));
        }
        self.conversation.call(kind, body, now_ns, deadline_ns)
    }

    /// Answers a call; `None` if there is no answer to give. Late answers are dropped.
    pub fn answer(&mut self, id: u64, answer: Option<Result<Vec<u8>, String>>) {
        if self.state == State::Up
            && let Err(malformed) = self.conversation.answer(id, answer)
        {
            self.refuse(broken(malformed));
        }
    }

    /// Refuses the other side, at any time: it is told, and the link ends.
    pub fn refuse(&mut self, refusal: Refusal) {
        if self.state == State::Closing {
            return;
        }
        let payload = RefusedBy::encode(&refusal);
        put_frame(&mut self.control, FrameKind::Refused, &[&payload]);
        self.end(Down::Refused(refusal));
    }

    /// The socket ended.
    pub fn lost(&mut self, error: String) {
        self.end(Down::Lost(error));
    }

    fn end(&mut self, down: Down) {
        if self.state == State::Closing {
            return;
        }
        self.state = State::Closing;
        let ended = self.conversation.give_up();
        self.events.extend(ended.into_iter().map(Event::Ended));
        self.events.push_back(Event::Down(down));
    }

    /// Appends what is to be sent now: about `OUTPUT_BYTES` at most. To be called when the last
    /// output is gone: what is due meanwhile is said once.
    pub fn output(&mut self, out: &mut Vec<u8>, now_ns: u64) {
        let from = out.len();
        self.fill(out, now_ns);
        self.traffic.sent += count_frames(&out[from..]);
    }

    fn fill(&mut self, out: &mut Vec<u8>, now_ns: u64) {
        out.append(&mut self.control);
        if self.state != State::Up {
            return;
        }
        if let Some(echo) = self.pong_due.take() {
            put_frame(out, FrameKind::Pong, &[&echo.to_le_bytes()]);
        }
        if now_ns >= self.next_ping_ns {
            self.next_ping_ns = now_ns.saturating_add(PING_EVERY_NS);
            let PeerStatus { table_version, keys, uptime_ms } = self.status;
            let mut payload = now_ns.to_le_bytes().to_vec();
            let fields = [table_version, keys, uptime_ms].map(u64::to_le_bytes);
            put_block(&mut payload, fields.as_flattened());
            put_frame(out, FrameKind::Ping, &[&payload]);
        }
        if !self.told.is_empty() {
            let mut payload = Vec::new();
            encode_addresses(&mut payload, &std::mem::take(&mut self.told));
            put_frame(out, FrameKind::Addresses, &[&payload]);
        }
        self.conversation.outbox.fill(out, OUTPUT_BYTES);
    }

    /// When `poll` or `output` may have something without anything having come; 0 is now.
    pub fn next_deadline_ns(&self) -> u64 {
        if !self.control.is_empty() {
            return 0;
        }
        if self.state == State::Up
            && (self.pong_due.is_some()
                || !self.told.is_empty()
                || !self.conversation.outbox.is_empty())
        {
            return 0;
        }
        if self.state != State::Up {
            return self.opened_ns.saturating_add(GREETING_LIMIT_NS);
        }
        let silence = self.heard_ns.saturating_add(SILENCE_LIMIT_NS);
        let call = self.conversation.next_deadline_ns().unwrap_or(u64::MAX);
        self.next_ping_ns.min(silence).min(call)
    }
}

fn broken(malformed: Malformed) -> Refusal {
    Refusal::Broken(malformed.to_string())
}

#[cfg(test)]
mod tests;
