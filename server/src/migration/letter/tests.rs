//! Letters and replies: what was put in comes out, and what is none is refused.
//!
//! Not who writes them. Invariant: a test of a refusal names it.

use proptest::prelude::*;

use super::*;

const ID: MoveId = MoveId::from_bytes(*b"move 001");

fn slot(number: u16) -> SlotId {
    SlotId::new(number).expect("a slot")
}

fn every_kind() -> Vec<Said<'static>> {
    vec![
        Said::Begin { keys: 7, bytes: 1 << 40 },
        Said::Frame(b"\x01chunk"),
        Said::Groups(b"groups"),
        Said::Handover { id: ID, last: OpIndex(99) },
        Said::Drop,
        Said::Frame(b""),
    ]
}

fn letter(said: &[Said<'_>]) -> (Head, Vec<u8>) {
    let head = Head { channel: 11, number: 3, version: TableVersion(500) };
    let mut body = Vec::new();
    head.put(&mut body);
    for (nth, said) in said.iter().enumerate() {
        put_item(&mut body, slot(16_000 + nth as u16), nth as u32, Epoch(40), *said);
    }
    (head, body)
}

/// All items, and whether the letter was read to its end.
fn read(body: &[u8]) -> Result<(Head, Vec<Item<'_>>), Malformed> {
    let mut letter = Letter::read(body)?;
    let mut items = Vec::new();
    while let Some(item) = letter.next_item()? {
        items.push(item);
    }
    Ok((letter.head, items))
}

#[test]
fn a_letter_says_what_was_put_into_it() {
    let said = every_kind();
    let (head, body) = letter(&said);
    let (read_head, items) = read(&body).expect("a letter");
    assert_eq!(read_head, head);
    for (nth, (item, said)) in items.iter().zip(&said).enumerate() {
        let (slot, attempt) = (slot(16_000 + nth as u16), nth as u32);
        assert_eq!(*item, Item { slot, attempt, epoch: Epoch(40), said: *said });
    }
    assert_eq!(items.len(), said.len());
}

#[test]
fn a_payload_is_written_in_place_or_taken_back() {
    let (_, mut body) = letter(&[Said::Drop]);
    let before = body.len();
    let open = open_item(&mut body, slot(1), 2, Epoch(3), true);
    body.extend_from_slice(b"frame");
    open.give_up(&mut body);
    assert_eq!(body.len(), before);
    for is_frame in [true, false] {
        let open = open_item(&mut body, slot(1), 2, Epoch(3), is_frame);
        body.extend_from_slice(b"bytes");
        open.close(&mut body);
    }
    let (_, items) = read(&body).expect("a letter");
    let said: Vec<Said<'_>> = items.iter().map(|item| item.said).collect();
    assert_eq!(said, [Said::Drop, Said::Frame(b"bytes"), Said::Groups(b"bytes")]);
}

#[test]
fn a_letter_cut_anywhere_gives_fewer_items_or_an_error() {
    let (_, body) = letter(&every_kind());
    let whole = read(&body).expect("a letter").1.len();
    for end in 0..body.len() {
        if let Ok((_, items)) = read(&body[..end]) {
            assert!(items.len() < whole, "{end}");
        }
    }
}

#[test]
fn what_is_no_letter_is_refused() {
    let (_, good) = letter(&[Said::Drop]);
    let bad = |at: usize, byte: u8| {
        let mut body = good.clone();
        body[at] = byte;
        read(&body).map(|(_, items)| items.len())
    };
    let unknown = "format: the other node has another version of slotd";
    assert_eq!(bad(0, 9), Err(Malformed(unknown)));
    assert_eq!(bad(26, 0xFF), Err(Malformed("slot")), "16,384 and more");
    assert_eq!(bad(39, 0), Err(Malformed("kind of an item")));
    assert_eq!(bad(40, 1), Err(Malformed("payload")), "a length of what did not come");
    let mut longer = good;
    longer[40] = 1;
    longer.push(0);
    assert_eq!(read(&longer).map(|_| ()), Err(Malformed("end of an item")), "a drop says nothing");
}

#[test]
fn a_reply_says_what_was_put_into_it() {
    let all = [
        Stands::Filling,
        Stands::Holds(OpIndex(5)),
        Stands::Handed(OpIndex(6)),
        Stands::Fenced(Epoch(7)),
        Stands::Behind,
        Stands::Apart,
        Stands::NoRoom,
    ];
    let state = |(nth, stands): (usize, &Stands)| State {
        slot: slot(nth as u16),
        attempt: 9,
        stands: *stands,
    };
    let states = all.iter().enumerate().map(state).collect();
    let reply = Reply { boot: Boot(4), version: TableVersion(77), states };
    let body = reply.encode();
    assert_eq!(Reply::read(&body), Ok(reply));
    let ends: Vec<usize> =
        (0..body.len()).filter(|end| Reply::read(&body[..*end]).is_ok()).collect();
    let state_bytes = (body.len() - 17) / all.len();
    let whole: Vec<usize> = (0..all.len()).map(|nth| 17 + nth * state_bytes).collect();
    assert_eq!(ends, whole, "cut between two states it is a shorter reply, else none");
    let mut unknown = body;
    unknown[17 + 6] = 8;
    assert_eq!(Reply::read(&unknown), Err(Malformed("state")));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(body: Vec<u8>) {
        let _ = read(&body);
        let _ = Reply::read(&body);
        let formatted: Vec<u8> = [1].into_iter().chain(body).collect();
        let _ = read(&formatted);
        let _ = Reply::read(&formatted);
    }
}
