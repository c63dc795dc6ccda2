//! Two links in memory: greetings, calls, silence, and whatever does not belong on a link.

use slots::{Boot, Endpoint, NodeId};

use super::*;
use crate::peer::conversation::MAX_ANSWERING;
use crate::peer::greeting::Versions;
use crate::peer::greeting::tests::hello;
use crate::peer::outbox::MAX_CALLS;
use crate::peer::refusal::RefusalCode;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A dialer (node 1) and an acceptor (node 2) on a wire that may be cut.
struct Pair {
    links: [Link; 2],
    events: [Vec<Event>; 2],
    judgements: [Result<Standing, Refusal>; 2],
    /// Does what this side sends arrive?
    passes: [bool; 2],
    now_ns: u64,
}

fn terms(n: u8, secret: Option<&[u8]>) -> Terms {
    Terms { hello: hello(n), secret: secret.and_then(Secret::new) }
}

impl Pair {
    fn new(dialer: Terms, acceptor: Terms) -> Pair {
        Pair {
            links: [Link::new(Side::Dialer, dialer, 0), Link::new(Side::Acceptor, acceptor, 0)],
            events: [Vec::new(), Vec::new()],
            judgements: [Ok(Standing::Member), Ok(Standing::Member)],
            passes: [true, true],
            now_ns: 0,
        }
    }

    fn up() -> Pair {
        let mut pair = Pair::new(terms(1, None), terms(2, None));
        pair.run();
        for (at, link) in pair.links.iter().enumerate() {
            assert_eq!(link.state(), State::Up, "side {at}");
        }
        pair.events = [Vec::new(), Vec::new()];
        pair
    }

    /// Until nothing moves.
    fn run(&mut self) {
        loop {
            let mut moved = false;
            for at in [0, 1] {
                while let Some(event) = self.links[at].poll(self.now_ns) {
                    if event == Event::Greeted {
                        let known = (NodeId::from_bytes([7; 20]), Endpoint::new("seven", 7));
                        self.links[at].judged(self.judgements[at].clone(), &[known]);
                    }
                    self.events[at].push(event);
                    moved = true;
                }
                let mut out = Vec::new();
                self.links[at].output(&mut out, self.now_ns);
                moved |= !out.is_empty();
                if self.passes[at] {
                    for piece in out.chunks(7001) {
                        self.links[1 - at].receive(piece, self.now_ns);
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Frames since this was asked last: what the dialer sent and received, and the acceptor.
    fn traffic(&mut self) -> [[u64; 2]; 2] {
        self.links.each_mut().map(|link| {
            let Traffic { sent, received } = link.take_traffic();
            [sent, received]
        })
    }

    fn advance(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(10) {
            self.now_ns += 10 * MS;
            self.run();
        }
    }

    fn down(&self, at: usize) -> Option<&Down> {
        self.events[at].iter().find_map(|event| match event {
            Event::Down(down) => Some(down),
            _ => None,
        })
    }

    fn ended(&self, at: usize) -> Vec<(u64, Result<Vec<u8>, CallError>)> {
        let ended = self.events[at].iter().filter_map(|event| match event {
            Event::Ended(ended) => Some((ended.id, ended.outcome.clone())),
            _ => None,
        });
        ended.collect()
    }

    fn call(&mut self, at: usize, body: &[u8], ms: u64) -> Result<u64, CallError> {
        let deadline_ns = self.now_ns + ms * MS;
        self.links[at].call(CallKind::Propose, body.to_vec(), self.now_ns, deadline_ns)
    }

    /// Answers whatever was asked at this side.
    fn answer_all(&mut self, at: usize) -> usize {
        let events = std::mem::take(&mut self.events[at]);
        let (mut answered, mut rest) = (0, Vec::new());
        for event in events {
            match event {
                Event::Request(request) => {
                    let mut answer = request.body.clone();
                    answer.reverse();
                    self.links[at].answer(request.id, Some(Ok(answer)));
                    answered += 1;
                }
                other => rest.push(other),
            }
        }
        self.events[at] = rest;
        self.run();
        answered
    }
}

/// The codes with which the two sides see a link end that `by` refused.
fn check_refused(mut pair: Pair, by: usize, code: RefusalCode, proven: bool) {
    pair.run();
    match pair.down(by) {
        Some(Down::Refused(refusal)) => assert_eq!(refusal.code(), code),
        other => panic!("{other:?}"),
    }
    match pair.down(1 - by) {
        Some(Down::RefusedBy { by, is_proven }) => {
            assert_eq!((by.code, *is_proven), (code, proven), "{}", by.text);
        }
        other => panic!("{other:?}"),
    }
    let ups = pair.events.iter().flatten().filter(|event| matches!(event, Event::Up(_)));
    assert_eq!(ups.count(), 0);
}

#[test]
fn both_sides_greet_and_tell_addresses() {
    let secret = Some(b"secret".as_slice());
    for (dialer, acceptor) in [(None, None), (secret, secret)] {
        let mut pair = Pair::new(terms(1, dialer), terms(2, acceptor));
        pair.run();
        for at in [0, 1] {
            let link = &pair.links[at];
            assert_eq!(link.state(), State::Up);
            let known = (NodeId::from_bytes([7; 20]), Endpoint::new("seven", 7));
            assert_eq!(pair.events[at], [Event::Greeted, Event::Up(vec![known])]);
            assert_eq!(link.theirs().map(|h| h.identity), Some(hello(2 - at as u8).identity));
        }
    }
}

#[test]
fn a_wrong_or_missing_secret_is_refused() {
    let (a, b) = (Some(b"a".as_slice()), Some(b"b".as_slice()));
    // Who sees the fault first refuses: the acceptor.
    for (dialer, acceptor) in [(a, b), (a, None), (None, a)] {
        let pair = Pair::new(terms(1, dialer), terms(2, acceptor));
        check_refused(pair, 1, RefusalCode::Secret, false);
    }
}

#[test]
fn an_acceptor_that_does_not_know_the_secret_is_refused_by_the_dialer() {
    let mut acceptor = terms(2, None);
    acceptor.hello.has_secret = true;
    let mut pair = Pair::new(terms(1, Some(b"a")), acceptor);
    // It pretends, and takes any proof.
    pair.links[1].our_bytes = pair.links[1].terms.hello.encode();
    let mut hello = hello(2);
    hello.has_secret = true;
    pair.links[1].our_bytes = hello.encode();
    pair.links[1].terms.secret = None;
    let mut out = Vec::new();
    pair.links[0].output(&mut out, 0);
    let mut answer = MAGIC.to_vec();
    put_frame(&mut answer, FrameKind::Hello, &[&hello.encode()]);
    put_frame(&mut answer, FrameKind::Proof, &[&[0; 32]]);
    pair.links[0].receive(&answer, 0);
    let down = std::iter::from_fn(|| pair.links[0].poll(0)).last();
    assert_eq!(down, Some(Event::Down(Down::Refused(Refusal::Secret(SecretFault::Wrong)))));
}

#[test]
fn versions_without_a_common_one_are_told_on_both_sides() {
    let mut newer = terms(2, None);
    newer.hello.versions = Versions { min: 2, max: 3 };
    let mut pair = Pair::new(terms(1, None), newer);
    pair.run();
    match pair.down(0) {
        Some(Down::RefusedBy { by, .. }) => {
            assert!(by.text.contains("version 1") && by.text.contains("versions 2-3"), "{by:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn either_sides_judgement_refuses() {
    let refuse = |at: usize| {
        let mut pair = Pair::new(terms(1, None), terms(2, None));
        pair.judgements[at] = Err(Refusal::Removed { name: "node-1".to_owned() });
        pair
    };
    check_refused(refuse(1), 1, RefusalCode::Removed, true);
    check_refused(refuse(0), 0, RefusalCode::Removed, true);
}

#[test]
fn a_greeting_that_takes_too_long_is_refused() {
    for (silent, sides) in [([true, false], [0]), ([false, true], [0])] {
        let mut pair = Pair::new(terms(1, None), terms(2, None));
        pair.passes = silent;
        pair.advance(GREETING_LIMIT_NS / MS - 10);
        assert_eq!(pair.down(0), None);
        pair.advance(10);
        for at in sides {
            assert_eq!(pair.down(at), Some(&Down::Refused(Refusal::Late)));
        }
    }
}

#[test]
fn nothing_but_the_greeting_is_read_before_its_end() {
    for kind in [FrameKind::Request, FrameKind::Ping, FrameKind::Welcome, FrameKind::Proof] {
        let mut link = Link::new(Side::Acceptor, terms(2, None), 0);
        let mut bytes = MAGIC.to_vec();
        put_frame(&mut bytes, kind, &[&[0; 14]]);
        link.receive(&bytes, 0);
        match link.poll(0) {
            Some(Event::Down(Down::Refused(Refusal::Broken(_)))) => {}
            other => panic!("{kind:?}: {other:?}"),
        }
    }
    let mut link = Link::new(Side::Acceptor, terms(2, None), 0);
    let mut bytes = MAGIC.to_vec();
    put_frame(&mut bytes, FrameKind::Hello, &[&[0; MAX_GREETING_PAYLOAD_BYTES + 1]]);
    link.receive(&bytes[..64], 0);
    match link.poll(0) {
        Some(Event::Down(Down::Refused(Refusal::Broken(text)))) => {
            assert!(text.contains("4097") && text.contains("4096"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_is_answered_whatever_its_length() {
    let mut pair = Pair::up();
    for bytes in [0, 1, MAX_PAYLOAD_BYTES, 1 << 20] {
        let body: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let id = pair.call(0, &body, 1000).expect("room");
        pair.run();
        assert_eq!(pair.answer_all(1), 1);
        let mut reversed = body;
        reversed.reverse();
        assert!(pair.ended(0) == [(id, Ok(reversed))], "{bytes} bytes");
        pair.events[0].clear();
    }
    let too_long = pair.call(0, &vec![0; crate::peer::MAX_MESSAGE_BYTES + 1], 1000);
    assert!(matches!(too_long, Err(CallError::Refused(_))));
}

#[test]
fn a_long_message_is_sent_without_waiting_for_the_clock() {
    let mut pair = Pair::up();
    pair.call(0, &vec![0; 1 << 20], 1000).expect("room");
    let (link, mut sent) = (&mut pair.links[0], 0);
    while link.next_deadline_ns() == 0 {
        let mut out = Vec::new();
        link.output(&mut out, 0);
        assert!((1..=OUTPUT_BYTES + MAX_PAYLOAD_BYTES + 100).contains(&out.len()));
        sent += out.len();
    }
    assert!(sent > 1 << 20, "{sent} bytes, and the rest waits");
}

#[test]
fn calls_cross_and_refusals_come_back() {
    let mut pair = Pair::up();
    let ids = [pair.call(0, b"ab", 1000), pair.call(1, b"cd", 1000)].map(|id| id.expect("room"));
    pair.run();
    pair.answer_all(0);
    pair.answer_all(1);
    assert_eq!(pair.ended(0), [(ids[0], Ok(b"ba".to_vec()))]);
    assert_eq!(pair.ended(1), [(ids[1], Ok(b"dc".to_vec()))]);
    let id = pair.call(0, b"no", 1000).expect("room");
    pair.run();
    pair.links[1].answer(id, Some(Err("not the leader".to_owned())));
    pair.run();
    let refused = CallError::Refused("not the leader".to_owned());
    assert_eq!(pair.ended(0).last(), Some(&(id, Err(refused))));
}

#[test]
fn a_call_without_an_answer_ends_at_its_deadline_and_a_late_answer_is_dropped() {
    let mut pair = Pair::up();
    let id = pair.call(0, b"x", 50).expect("room");
    pair.advance(40);
    assert_eq!(pair.ended(0), []);
    assert!(pair.links[0].next_deadline_ns() <= 50 * MS);
    pair.advance(10);
    assert_eq!(pair.ended(0), [(id, Err(CallError::NoAnswer))]);
    assert_eq!(pair.answer_all(1), 1);
    assert_eq!(pair.ended(0).len(), 1);
    assert_eq!((pair.down(0), pair.down(1)), (None, None));
}

#[test]
fn calls_beyond_what_is_carried_out_at_once_are_busy() {
    let mut pair = Pair::up();
    let mut made = 0;
    while pair.call(0, b"x", 1000).is_ok() {
        made += 1;
    }
    assert_eq!(made, MAX_CALLS);
    assert_eq!(pair.call(0, b"x", 1000), Err(CallError::Busy));
    pair.run();
    let busy = pair.ended(0).iter().filter(|(_, end)| *end == Err(CallError::Busy)).count();
    assert_eq!(busy, MAX_CALLS - MAX_ANSWERING);
    assert_eq!(pair.answer_all(1), MAX_ANSWERING);
    assert_eq!(pair.ended(0).len(), MAX_CALLS);
}

#[test]
fn a_broken_link_tells_sent_calls_from_those_not_made() {
    let mut pair = Pair::up();
    let sent = pair.call(0, b"x", 1000).expect("room");
    pair.run();
    let unsent = pair.call(0, b"y", 1000).expect("room");
    pair.links[0].lost("reset".to_owned());
    pair.run();
    let ends = [(sent, Err(CallError::NoAnswer)), (unsent, Err(CallError::NotConnected))];
    assert_eq!(pair.ended(0), ends);
    assert_eq!(pair.down(0), Some(&Down::Lost("reset".to_owned())));
    assert_eq!(pair.call(0, b"z", 1000), Err(CallError::NotConnected));
}

#[test]
fn pings_carry_status_and_measure_the_round_trip() {
    let mut pair = Pair::up();
    let status = PeerStatus { table_version: 7, keys: 8, uptime_ms: 9 };
    pair.links[1].say(status);
    pair.advance(100);
    assert_eq!(pair.links[0].their_status(), status);
    assert_eq!(pair.links[0].round_trip_ns(), Some(0));
    // A later version's longer status is read as far as it is known.
    let mut payload = 5u64.to_le_bytes().to_vec();
    let mut block = [1u64, 2, 3].map(u64::to_le_bytes).as_flattened().to_vec();
    block.extend_from_slice(b"more");
    put_block(&mut payload, &block);
    payload.extend_from_slice(b"and more");
    let mut bytes = Vec::new();
    put_frame(&mut bytes, FrameKind::Ping, &[&payload]);
    pair.links[0].receive(&bytes, pair.now_ns);
    pair.run();
    let expected = PeerStatus { table_version: 1, keys: 2, uptime_ms: 3 };
    assert_eq!((pair.links[0].their_status(), pair.down(0)), (expected, None));
}

#[test]
fn a_side_that_reads_nothing_costs_no_memory_for_pings() {
    let mut link = Pair::up().links.into_iter().next().expect("two");
    let mut ping = Vec::new();
    put_frame(&mut ping, FrameKind::Ping, &[&[0; 8], &[24, 0], &[0; 24]]);
    for ms in 0..100_000 {
        link.receive(&ping, ms * MS);
        assert_eq!(link.poll(ms * MS), None);
    }
    let mut out = Vec::new();
    link.output(&mut out, 100_000 * MS);
    assert!(out.len() < 200, "{}", out.len());
}

#[test]
fn a_silent_link_is_closed() {
    let mut pair = Pair::up();
    pair.advance(10_000);
    assert_eq!((pair.down(0), pair.down(1)), (None, None));
    pair.passes = [false, true];
    pair.advance(SILENCE_LIMIT_NS / MS - 110);
    assert_eq!(pair.down(1), None);
    pair.advance(200);
    assert_eq!(pair.down(1), Some(&Down::Silent));
}

#[test]
fn addresses_that_are_told_arrive_once() {
    let mut pair = Pair::up();
    let address = |port| (NodeId::from_bytes([5; 20]), Endpoint::new("five", port));
    pair.links[0].tell(address(1));
    pair.links[0].tell(address(2));
    pair.run();
    assert_eq!(pair.events[1], [Event::Addresses(vec![address(2)])]);
}

#[test]
fn a_strangers_link_carries_meet_only() {
    let mut dialer = terms(1, None);
    dialer.hello.as_stranger = true;
    let mut pair = Pair::new(dialer, terms(2, None));
    pair.judgements = [Ok(Standing::Stranger), Ok(Standing::Stranger)];
    pair.run();
    assert!(pair.links[1].as_stranger());
    let propose = pair.call(0, b"x", 1000);
    assert!(matches!(propose, Err(CallError::Refused(_))), "{propose:?}");
    let meet = pair.links[0].call(CallKind::Meet, b"hi".to_vec(), 0, 1000 * MS).expect("room");
    pair.run();
    assert_eq!(pair.answer_all(1), 1);
    assert_eq!(pair.ended(0), [(meet, Ok(b"ih".to_vec()))]);
    // The other side does not rely on our good will.
    pair.links[0].standing = Standing::Member;
    pair.call(0, b"x", 1000).expect("room");
    pair.run();
    assert!(matches!(pair.down(1), Some(Down::Refused(Refusal::Broken(_)))), "{:?}", pair.down(1));
}

#[test]
fn a_strangers_link_ends_after_a_while() {
    let mut pair = Pair::new(terms(1, None), terms(2, None));
    pair.judgements = [Ok(Standing::Stranger), Ok(Standing::Stranger)];
    pair.run();
    pair.advance(STRANGER_LIMIT_NS / MS + 10);
    assert!(pair.down(0).is_some() && pair.down(1).is_some());
}

#[test]
fn a_refusal_may_come_at_any_time_and_reaches_the_other_side() {
    let mut pair = Pair::up();
    let name = "node-1".to_owned();
    pair.links[1].refuse(Refusal::Outdated { name, recorded: Boot(9), got: Boot(3) });
    pair.run();
    match pair.down(0) {
        Some(Down::RefusedBy { by, is_proven: true }) => {
            assert_eq!((by.code, by.detail), (RefusalCode::Outdated, 9));
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn any_bytes_on_an_open_link_end_it_or_are_skipped(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        kind in 1u8..10,
        raw in any::<bool>(),
    ) {
        let mut pair = Pair::up();
        let mut stream = Vec::new();
        match FrameKind::Ping {
            _ if raw => stream = bytes,
            _ => {
                put_frame(&mut stream, FrameKind::Ping, &[&bytes]);
                // Any kind under a checksum that fits.
                stream[4] = kind;
                let sum = crc32c::crc32c_append(crc32c::crc32c(&stream[..8]), &bytes);
                stream[8..12].copy_from_slice(&sum.to_le_bytes());
            }
        }
        pair.links[0].receive(&stream, 0);
        pair.run();
    }
}

#[test]
fn each_frame_is_counted_once_on_either_side() {
    let mut pair = Pair::up();
    // Hello, proof, welcome, and a ping with its pong.
    assert_eq!(pair.traffic(), [[5, 5], [5, 5]]);
    let body = vec![1; 3 * MAX_PAYLOAD_BYTES];
    let deadline_ns = pair.now_ns + 1000 * MS;
    let id = pair.links[0].call(CallKind::Propose, body, pair.now_ns, deadline_ns).expect("room");
    assert!(pair.links[0].unsent_bytes() > 3 * MAX_PAYLOAD_BYTES);
    pair.run();
    assert_eq!(pair.traffic(), [[4, 0], [0, 4]]);
    pair.links[1].answer(id, Some(Ok(Vec::new())));
    pair.run();
    assert_eq!((pair.traffic(), pair.links[0].unsent_bytes()), ([[0, 1], [1, 0]], 0));
    pair.passes[0] = false;
    pair.advance(100);
    let [[sent, _], [_, received]] = pair.traffic();
    assert!(sent > 0 && received == 0, "{sent} sent, {received} received");
}
