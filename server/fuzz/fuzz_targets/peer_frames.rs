//! Any bytes on a link between nodes, before its greeting and after: it must not panic, and must
//! hold no more than it was given. The frames get a checksum that fits, else few came through.
//!
//! The first byte of the input says whether the link is up, and whether the rest is raw; else it
//! is frames: kind, length (two bytes), payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slotd::peer::Identity;
use slotd::peer::frame::{FrameKind, MAGIC, checksum, put_frame};
use slotd::peer::greeting::{Hello, PROTOCOL_VERSIONS, Side};
use slotd::peer::judge::Standing;
use slotd::peer::link::{Event, Link, State, Terms};
use slots::{Boot, ClusterId, Endpoint, NodeId, Nonce, StoreId};

fuzz_target!(|input: &[u8]| {
    let [choice, rest @ ..] = input else { return };
    let mut links = [link(Side::Dialer, 1), link(Side::Acceptor, 2)];
    if choice & 1 != 0 {
        while links.iter().any(|link| link.state() != State::Up) {
            for at in [0, 1] {
                run(&mut links[at]);
                let mut out = Vec::new();
                links[at].output(&mut out, 0);
                links[1 - at].receive(&out, 0);
            }
        }
    }
    let bytes = if choice & 2 != 0 { rest.to_vec() } else { frames(rest, choice & 1 != 0) };
    for link in &mut links {
        for piece in bytes.chunks(1 + usize::from(choice >> 2)) {
            link.receive(piece, 0);
            run(link);
        }
        link.output(&mut Vec::new(), 0);
    }
});

fn link(side: Side, n: u8) -> Link {
    let hello = Hello {
        versions: PROTOCOL_VERSIONS,
        has_secret: false,
        as_stranger: false,
        cluster: Some(ClusterId::from_bytes([9; 20])),
        generation: 1,
        table_version: 1,
        identity: Identity {
            node: NodeId::from_bytes([n; 20]),
            store: StoreId::from_bytes([n; 16]),
            boot: Boot(1),
            nonce: Nonce::from_bytes([n; 8]),
        },
        challenge: [n; 32],
        name: format!("node-{n}"),
        server_version: "0".to_owned(),
        bus: Endpoint::new("", 1),
        client: Endpoint::new("", 2),
    };
    Link::new(side, Terms { hello, secret: None }, 0)
}

/// Lets everybody in, answers every call.
fn run(link: &mut Link) {
    while let Some(event) = link.poll(0) {
        match event {
            Event::Greeted => link.judged(Ok(Standing::Member), &[]),
            Event::Request(request) => link.answer(request.id, Some(Ok(request.body))),
            _ => {}
        }
    }
}

fn frames(mut input: &[u8], is_up: bool) -> Vec<u8> {
    let mut out = if is_up { Vec::new() } else { MAGIC.to_vec() };
    while let [kind, low, high, rest @ ..] = input {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, next) = rest.split_at(length);
        let at = out.len();
        put_frame(&mut out, FrameKind::Ping, &[payload]);
        out[at + 4] = *kind;
        let sum = checksum(&out[at..at + 8], payload);
        out[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
        input = next;
    }
    out
}
