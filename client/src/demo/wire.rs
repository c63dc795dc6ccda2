//! A blocking connection to a node: requests as arrays of bulk strings, RESP2 replies.
//!
//! Not whom to ask, and no reconnects: a connection that breaks ends the demo. Invariant: no
//! wait without an end.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use slots::{Endpoint, SlotId, SlotRange};

use crate::router::{Served, SlotMap};

/// A reply.
pub(super) type Reply = OwnedFrame;

/// Longest wait for a connection to this very machine, and for a reply: a process that does not
/// run for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests sent before their replies are read: far from what a socket's buffer holds, so that
/// neither side waits for the other to read.
const PIPELINE: usize = 128;
const READ_CHUNK_BYTES: usize = 16 * 1024;

/// One connection.
pub(super) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
    asked: Endpoint,
}

impl Connection {
    /// Connects.
    pub(super) fn open(to: &Endpoint) -> io::Result<Connection> {
        let mut addresses = (to.host.as_str(), to.port).to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, unread: Vec::new(), asked: to.clone() })
    }

    /// Asks one thing.
    pub(super) fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut request = Vec::new();
        encode(words, &mut request);
        self.send(&request)?;
        self.read()
    }

    /// Asks one thing and takes its text. An error reply is an error.
    pub(super) fn ask_text(&mut self, words: &[&str]) -> io::Result<String> {
        let reply = self.ask(words)?;
        let asked = words.join(" ");
        match reply {
            OwnedFrame::Error(error) => Err(io::Error::other(format!("{asked}: {error}"))),
            reply => text(&reply)
                .map(str::to_owned)
                .ok_or_else(|| io::Error::other(format!("{asked}: expected text, got {reply:?}"))),
        }
    }

    /// The slots' owners, as this node tells them.
    pub(super) fn map(&mut self) -> io::Result<SlotMap> {
        let reply = self.ask(&["CLUSTER", "SLOTS"])?;
        rows(&reply)
            .map(|rows| SlotMap::from_rows(&self.asked, rows))
            .ok_or_else(|| io::Error::other(format!("CLUSTER SLOTS: not understood: {reply:?}")))
    }

    /// Asks one thing for each of `items`; replies are told in their order.
    pub(super) fn ask_each<T: Copy>(
        &mut self,
        items: &[T],
        words: impl Fn(T) -> Vec<String>,
        mut told: impl FnMut(T, Reply),
    ) -> io::Result<()> {
        for some in items.chunks(PIPELINE) {
            let mut requests = Vec::new();
            some.iter().for_each(|item| encode(&words(*item), &mut requests));
            self.send(&requests)?;
            for item in some {
                told(*item, self.read()?);
            }
        }
        Ok(())
    }

    /// An error of the socket, with the node's name.
    fn told(&self, error: &io::Error) -> io::Error {
        let node = &self.asked;
        match error.kind() {
            // What a socket says when its own deadline is over.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let seconds = PATIENCE.as_secs();
                let text = format!("{node}: no answer within {seconds} s");
                io::Error::new(io::ErrorKind::TimedOut, text)
            }
            kind => io::Error::new(kind, format!("{node}: {error}")),
        }
    }

    fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.stream.write_all(requests).map_err(|error| self.told(&error))
    }

    fn read(&mut self) -> io::Result<Reply> {
        loop {
            let decoded = decode(&self.unread).map_err(|error| {
                io::Error::other(format!("{}: not a reply: {error}", self.asked))
            })?;
            if let Some((reply, length)) = decoded {
                self.unread.drain(..length);
                return Ok(reply);
            }
            let filled = self.unread.len();
            self.unread.resize(filled + READ_CHUNK_BYTES, 0);
            let got = self.stream.read(&mut self.unread[filled..]);
            self.unread.truncate(filled + *got.as_ref().unwrap_or(&0));
            if got.map_err(|error| self.told(&error))? == 0 {
                return Err(self.told(&io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// The text of a reply that has one; errors have none.
pub(super) fn text(reply: &Reply) -> Option<&str> {
    match reply {
        OwnedFrame::SimpleString(bytes) | OwnedFrame::BulkString(bytes) => {
            std::str::from_utf8(bytes).ok()
        }
        _ => None,
    }
}

fn encode(words: &[impl AsRef<str>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// The rows of CLUSTER SLOTS; `None` if it is anything else.
fn rows(reply: &Reply) -> Option<Vec<Served<'_>>> {
    let OwnedFrame::Array(rows) = reply else { return None };
    rows.iter().map(row).collect()
}

fn row(reply: &Reply) -> Option<Served<'_>> {
    let OwnedFrame::Array(parts) = reply else { return None };
    let [first, last, OwnedFrame::Array(owner), ..] = parts.as_slice() else { return None };
    let slot = |reply: &Reply| number(reply).and_then(SlotId::new);
    let range = SlotRange::new(slot(first)?, slot(last)?)?;
    Some(Served { range, host: owner.first().and_then(text), port: number(owner.get(1)?)? })
}

fn number(reply: &Reply) -> Option<u16> {
    if let OwnedFrame::Integer(number) = reply { u16::try_from(*number).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(bytes: &str) -> Option<Vec<u16>> {
        let (reply, _) = decode(bytes.as_bytes()).expect("a reply").expect("a whole one");
        rows(&reply).map(|rows| rows.iter().map(|row| row.port).collect())
    }

    #[test]
    fn owners_are_read_from_cluster_slots() {
        let node = "*4\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n*0\r\n";
        assert_eq!(ports(&format!("*1\r\n*3\r\n:0\r\n:5460\r\n{node}")), Some(vec![7001]));
        assert_eq!(ports("*0\r\n"), Some(vec![]));
        for odd in ["+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n"] {
            assert_eq!(ports(odd), None, "{odd:?}");
        }
        assert_eq!(ports(&format!("*1\r\n*3\r\n:0\r\n:16384\r\n{node}")), None);
    }
}
