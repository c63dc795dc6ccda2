//! One connection to one node: connects, logs in, asks, each with an end to the wait.
//!
//! Not which node. Invariant: who asked knows whether the request may have reached the node.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use slots::Endpoint;

use super::Deadline;
use crate::reply::{self, Verdict};
use crate::resp::{self, Reply};

/// Longest wait for a connection, if the wait for the answer is not shorter: three times the
/// first retry of TCP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The name that stands for slotctl in the cluster's history and in CLIENT LIST.
const CLIENT_NAME: &[u8] = b"slotctl";

/// How to log in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Login {
    /// User; `None`: the default user.
    pub(crate) user: Option<String>,
    /// Password; `None`: no login.
    pub(crate) password: Option<String>,
}

/// Why a node gave no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The request was not sent.
    Unreached(String),
    /// It may have been carried out: the connection broke before the answer.
    Lost(String),
    /// It may be under way: the time was up before the answer.
    TimedOut(String),
    /// The login was refused, or what answers is no such node.
    Judged(Verdict),
}

impl Trouble {
    /// The reason, for people.
    pub(crate) fn text(&self) -> &str {
        match self {
            Trouble::Unreached(text) | Trouble::Lost(text) | Trouble::TimedOut(text) => text,
            Trouble::Judged(Verdict::Stop(_, text) | Verdict::Elsewhere(_, text)) => text,
        }
    }
}

/// An open connection.
pub(crate) struct Connection {
    stream: BufReader<Timed>,
    /// Sent ahead of the first question, its reply dropped: it costs no round trip.
    preface: Vec<u8>,
    /// It is under way.
    awaits_preface: bool,
}

impl Connection {
    /// Connects and logs in, within `timeout`.
    pub(crate) fn open(to: &Endpoint, login: &Login, timeout: Duration) -> Result<Self, Trouble> {
        let deadline = Deadline::after(timeout);
        let unreached = |error: io::Error| Trouble::Unreached(words(&error));
        let stream = connect(to, timeout.min(CONNECT_TIMEOUT)).map_err(unreached)?;
        stream.set_nodelay(true).map_err(unreached)?;
        let stream = BufReader::new(Timed { stream, deadline });
        let (preface, awaits_preface) = (Vec::new(), false);
        let mut connection = Connection { stream, preface, awaits_preface };
        if let Some(password) = &login.password {
            let user = login.user.iter().map(|user| user.clone().into_bytes());
            let words = [b"AUTH".to_vec()].into_iter().chain(user).chain([password.clone().into()]);
            let words: Vec<Vec<u8>> = words.collect();
            // A login changes nothing: what came of it does not matter to who asked.
            match connection.exchange(&words, deadline) {
                Ok(Reply::Error(error)) => return Err(Trouble::Judged(reply::judge(&error))),
                Ok(_) => {}
                Err(error) => return Err(unreached(error)),
            }
        }
        let name = [b"CLIENT".to_vec(), b"SETNAME".to_vec(), CLIENT_NAME.to_vec()];
        connection.preface = resp::encode(&name);
        Ok(connection)
    }

    /// Sends the words and takes the answer, within `timeout`: its text.
    pub(crate) fn ask(&mut self, words: &[Vec<u8>], timeout: Duration) -> Result<Vec<u8>, Trouble> {
        let answer = self.exchange(words, Deadline::after(timeout));
        match answer {
            Ok(Reply::Text(text)) => Ok(text),
            Ok(Reply::Error(error)) => Err(Trouble::Judged(reply::judge(&error))),
            Ok(Reply::Other(kind)) => Err(Trouble::Judged(Verdict::Elsewhere(
                crate::exit::Exit::Unreachable,
                format!("it answers as no slotd does: expected text, got {kind}"),
            ))),
            Err(error) if is_timeout(&error) => Err(Trouble::TimedOut(words_of_wait(timeout))),
            Err(error) => Err(Trouble::Lost(self::words(&error))),
        }
    }

    /// Sends the words and takes no answer yet: several may be under way. Within `timeout`.
    pub(crate) fn send(&mut self, words: &[&[u8]], timeout: Duration) -> Result<(), Trouble> {
        let timed = self.stream.get_mut();
        timed.deadline = Deadline::after(timeout);
        let mut bytes = std::mem::take(&mut self.preface);
        self.awaits_preface |= !bytes.is_empty();
        bytes.extend(resp::encode(words));
        let sent = timed.left().and_then(|left| {
            timed.stream.set_write_timeout(Some(left))?;
            timed.stream.write_all(&bytes)
        });
        sent.map_err(|error| self.lost(&error, timeout))
    }

    /// The answer to the first of `send` that has none yet, an error reply as it is.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Result<Reply, Trouble> {
        self.stream.get_mut().deadline = Deadline::after(timeout);
        let mut read = || {
            if std::mem::take(&mut self.awaits_preface) {
                resp::read(&mut self.stream)?;
            }
            resp::read(&mut self.stream)
        };
        read().map_err(|error| self.lost(&error, timeout))
    }

    fn lost(&self, error: &io::Error, timeout: Duration) -> Trouble {
        match is_timeout(error) {
            true => Trouble::TimedOut(words_of_wait(timeout)),
            false => Trouble::Lost(words(error)),
        }
    }

    fn exchange(&mut self, words: &[Vec<u8>], deadline: Deadline) -> io::Result<Reply> {
        let timed = self.stream.get_mut();
        timed.deadline = deadline;
        timed.stream.set_write_timeout(Some(timed.left()?))?;
        let mut bytes = std::mem::take(&mut self.preface);
        let has_preface = !bytes.is_empty();
        bytes.extend(resp::encode(words));
        timed.stream.write_all(&bytes)?;
        if has_preface {
            resp::read(&mut self.stream)?;
        }
        resp::read(&mut self.stream)
    }
}

fn connect(to: &Endpoint, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (to.host.as_str(), to.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A stream whose reads end at a deadline, however slowly bytes come.
struct Timed {
    stream: TcpStream,
    deadline: Deadline,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        self.deadline.left().ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "the connection broke".into(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no connection in time".into(),
        _ => error.to_string(),
    }
}

fn words_of_wait(timeout: Duration) -> String {
    format!("no answer within {:.1} s", timeout.as_secs_f64())
}
