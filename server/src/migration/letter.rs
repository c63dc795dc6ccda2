//! What an owner writes to the node that its slots move to, and the reply: the bodies of calls.
//!
//! ```text
//!   letter  1 | channel 8 | number 8 | version 8 | item...
//!     item  slot 2 | attempt 4 | epoch 8 | kind 1 | length 4 | payload
//!   reply   1 | boot 8 | version 8 | state...
//!    state  slot 2 | attempt 4 | kind 1 | epoch 8 | index 8
//! ```
//! Little-endian, drawn in `manual/wire`. One letter of a channel is under way at a time, and it is
//! sent again as it was until there is a reply: a number that was answered is answered again and
//! carried out once. Invariant: what is read was received; a length allocates nothing.

use slots::{Boot, Epoch, MoveId, OpIndex, SlotId, TableVersion};

/// The only version of either body.
const FORMAT: u8 = 1;
const ITEM_HEAD_BYTES: usize = 19;

/// A payload that ends too early, or holds what it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a letter between nodes holds no valid {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// What is said of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// A copy begins; one that is there is void. About so much will come.
    Begin {
        /// Keys.
        keys: u64,
        /// Bytes of keys and values in memory.
        bytes: u64,
    },
    /// The next frame of the copy's section.
    Frame(&'a [u8]),
    /// Groups behind its end, as the payload of a frame of groups.
    Groups(&'a [u8]),
    /// Nothing of the slot is served at this epoch any more; this was the last index. Only the
    /// commit of this move may use it.
    Handover {
        /// The move.
        id: MoveId,
        /// The last group.
        last: OpIndex,
    },
    /// The copy is not wanted any more.
    Drop,
}

/// One of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The slot.
    pub slot: SlotId,
    /// Which copy of it, since the channel was opened.
    pub attempt: u32,
    /// The owner's.
    pub epoch: Epoch,
    /// What.
    pub said: Said<'a>,
}

/// A letter's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Random: the owner's memory of the copies there. Of another channel all is forgotten.
    pub channel: u64,
    /// From 1.
    pub number: u64,
    /// The sender's table.
    pub version: TableVersion,
}

impl Head {
    /// Begins a letter.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        let words = [self.channel, self.number, self.version.0];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

/// Appends an item.
pub fn put_item(out: &mut Vec<u8>, slot: SlotId, attempt: u32, epoch: Epoch, said: Said<'_>) {
    let (mut small, mut payload): ([u8; 24], &[u8]) = ([0; 24], b"");
    let mut words = |first: &[u8], second: &[u8]| {
        small[..first.len()].copy_from_slice(first);
        small[first.len()..first.len() + second.len()].copy_from_slice(second);
        first.len() + second.len()
    };
    let (kind, small_bytes) = match said {
        Said::Begin { keys, bytes } => (1, words(&keys.to_le_bytes(), &bytes.to_le_bytes())),
        Said::Frame(frame) => {
            payload = frame;
            (2, 0)
        }
        Said::Groups(groups) => {
            payload = groups;
            (3, 0)
        }
        Said::Handover { id, last } => (4, words(id.bytes(), &last.0.to_le_bytes())),
        Said::Drop => (5, 0),
    };
    let payload = if small_bytes > 0 { &small[..small_bytes] } else { payload };
    put_item_head(out, slot, attempt, epoch, kind, payload.len());
    out.extend_from_slice(payload);
}

fn put_item_head(
    out: &mut Vec<u8>,
    slot: SlotId,
    attempt: u32,
    epoch: Epoch,
    kind: u8,
    payload_bytes: usize,
) {
    let length = u32::try_from(payload_bytes).expect("a payload fits a call");
    out.extend_from_slice(&slot.number().to_le_bytes());
    out.extend_from_slice(&attempt.to_le_bytes());
    out.extend_from_slice(&epoch.0.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&length.to_le_bytes());
}

/// The place of an item whose payload is written behind its head, in the letter itself.
pub struct Open {
    at: usize,
}

/// Begins an item whose payload follows, as `Frame` or, behind the end, `Groups`; `close` ends it.
pub fn open_item(
    out: &mut Vec<u8>,
    slot: SlotId,
    attempt: u32,
    epoch: Epoch,
    is_frame: bool,
) -> Open {
    put_item_head(out, slot, attempt, epoch, if is_frame { 2 } else { 3 }, 0);
    Open { at: out.len() }
}

impl Open {
    /// Ends it where the letter ends now.
    pub fn close(self, out: &mut [u8]) {
        let length = u32::try_from(out.len() - self.at).expect("a payload fits a call");
        out[self.at - 4..self.at].copy_from_slice(&length.to_le_bytes());
    }

    /// Takes it back.
    pub fn give_up(self, out: &mut Vec<u8>) {
        out.truncate(self.at - ITEM_HEAD_BYTES);
    }
}

/// How a copy stands, by the word of the node that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It is not whole.
    Filling,
    /// It is whole up to this index, as safe as that node promises (R0).
    Holds(OpIndex),
    /// As `Holds`, and the owner's word was taken.
    Handed(OpIndex),
    /// The table there knows a newer epoch: look at the table.
    Fenced(Epoch),
    /// The table there does not know yet what makes it take the slot: try again.
    Behind,
    /// What came does not go on from what is there: begin anew.
    Apart,
    /// There is no room for it.
    NoRoom,
}

/// One of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The slot.
    pub slot: SlotId,
    /// As in the letter.
    pub attempt: u32,
    /// How it stands.
    pub stands: Stands,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Of the node that answers.
    pub boot: Boot,
    /// Its table's.
    pub version: TableVersion,
    /// One for each slot of the letter.
    pub states: Vec<State>,
}

impl Reply {
    /// As a body.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.boot.0.to_le_bytes());
        out.extend_from_slice(&self.version.0.to_le_bytes());
        for state in &self.states {
            out.extend_from_slice(&state.slot.number().to_le_bytes());
            out.extend_from_slice(&state.attempt.to_le_bytes());
            let (kind, epoch, index) = match state.stands {
                Stands::Filling => (1, 0, 0),
                Stands::Holds(index) => (2, 0, index.0),
                Stands::Handed(index) => (3, 0, index.0),
                Stands::Fenced(epoch) => (4, epoch.0, 0),
                Stands::Behind => (5, 0, 0),
                Stands::Apart => (6, 0, 0),
                Stands::NoRoom => (7, 0, 0),
            };
            out.push(kind);
            out.extend_from_slice(&epoch.to_le_bytes());
            out.extend_from_slice(&index.to_le_bytes());
        }
        out
    }

    /// Reads a body.
    ///
    /// # Errors
    /// It is none.
    pub fn read(body: &[u8]) -> Result<Reply, Malformed> {
        let mut from = From(body);
        from.format()?;
        let (boot, version) = (Boot(from.u64("boot")?), TableVersion(from.u64("version")?));
        let mut states = Vec::new();
        while !from.0.is_empty() {
            let (slot, attempt) = (from.slot()?, from.u32("attempt")?);
            let kind = from.u8("state")?;
            let (epoch, index) = (Epoch(from.u64("epoch")?), OpIndex(from.u64("index")?));
            let stands = match kind {
                1 => Stands::Filling,
                2 => Stands::Holds(index),
                3 => Stands::Handed(index),
                4 => Stands::Fenced(epoch),
                5 => Stands::Behind,
                6 => Stands::Apart,
                7 => Stands::NoRoom,
                _ => return Err(Malformed("state")),
            };
            states.push(State { slot, attempt, stands });
        }
        Ok(Reply { boot, version, states })
    }
}

/// A letter that is being read.
pub struct Letter<'a> {
    /// Its head.
    pub head: Head,
    rest: From<'a>,
}

impl<'a> Letter<'a> {
    /// Reads the head.
    ///
    /// # Errors
    /// There is none.
    pub fn read(body: &'a [u8]) -> Result<Letter<'a>, Malformed> {
        let mut rest = From(body);
        rest.format()?;
        let (channel, number) = (rest.u64("channel")?, rest.u64("number")?);
        let version = TableVersion(rest.u64("version")?);
        Ok(Letter { head: Head { channel, number, version }, rest })
    }

    /// The next item; `None`: that was the last.
    ///
    /// # Errors
    /// It is none; nothing more is to be asked.
    pub fn next_item(&mut self) -> Result<Option<Item<'a>>, Malformed> {
        let from = &mut self.rest;
        if from.0.is_empty() {
            return Ok(None);
        }
        let (slot, attempt) = (from.slot()?, from.u32("attempt")?);
        let (epoch, kind) = (Epoch(from.u64("epoch")?), from.u8("kind of an item")?);
        let length = from.u32("length")? as usize;
        let payload = from.take(length, "payload")?;
        let mut words = From(payload);
        let said = match kind {
            1 => Said::Begin { keys: words.u64("keys")?, bytes: words.u64("bytes")? },
            2 => Said::Frame(payload),
            3 => Said::Groups(payload),
            4 => {
                let id = words.array("move")?;
                let last = OpIndex(words.u64("index")?);
                Said::Handover { id: MoveId::from_bytes(id), last }
            }
            5 => Said::Drop,
            _ => return Err(Malformed("kind of an item")),
        };
        let is_whole = matches!(said, Said::Frame(_) | Said::Groups(_)) || words.0.is_empty();
        match is_whole {
            true => Ok(Some(Item { slot, attempt, epoch, said })),
            false => Err(Malformed("end of an item")),
        }
    }
}

struct From<'a>(&'a [u8]);

impl<'a> From<'a> {
    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Malformed(what))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed(what))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn slot(&mut self) -> Result<SlotId, Malformed> {
        let number = u16::from_le_bytes(self.array("slot")?);
        SlotId::new(number).ok_or(Malformed("slot"))
    }

    fn format(&mut self) -> Result<(), Malformed> {
        match self.u8("format")? {
            FORMAT => Ok(()),
            _ => Err(Malformed("format: the other node has another version of slotd")),
        }
    }
}

#[cfg(test)]
mod tests;
