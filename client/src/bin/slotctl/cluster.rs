//! The cluster as one thing to ask: finds a node that answers, goes on with another when it dies.
//!
//! Not what is asked. Invariant: whom an answer came from is known, and a change of the node is
//! said on standard error, once.

use std::collections::HashSet;
use std::time::Duration;

use serde::de::DeserializeOwned;
use slots::admin::Status;
use slots::{Endpoint, NodeId};

use crate::edge::{self, Connection, Login, Terminal, Trouble};
use crate::exit::{Exit, Failure};
use crate::find::{self, Next, Place, Source, Start};
use crate::request::Request;
use crate::survey::{REMOVED, Survey};

/// Longest wait for the answer to a question: a node that lives answers within milliseconds.
pub(crate) const QUESTION_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for the end of an order: a vote that moves waits for a node to catch up.
pub(crate) const ORDER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long to wait for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    /// To a question.
    pub(crate) question: Duration,
    /// To an order.
    pub(crate) order: Duration,
}

/// How to come to any node.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    login: Login,
    patience: Patience,
}

impl Door {
    /// A connection to a node.
    pub(crate) fn open(&self, to: &Endpoint) -> Result<Connection, Trouble> {
        Connection::open(to, &self.login, self.patience.question)
    }

    /// How long to wait for an answer that may take its time.
    pub(crate) fn patience(&self) -> Duration {
        self.patience.order
    }
}

/// The cluster, asked through one node at a time.
pub(crate) struct Cluster {
    places: Vec<Place>,
    source: Source,
    login: Login,
    patience: Patience,
    current: Option<(Endpoint, Connection)>,
    said: HashSet<String>,
    learns: Learning,
    /// Where notices go.
    pub(crate) terminal: Terminal,
}

/// Whether other nodes may be asked than those named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Learning {
    All,
    Nothing,
}

impl Cluster {
    /// The cluster that begins at `start`. Nothing is asked yet.
    pub(crate) fn new(start: Start, login: Login, patience: Patience, terminal: Terminal) -> Self {
        Cluster {
            places: start.places,
            source: start.source,
            login,
            patience,
            current: None,
            said: HashSet::new(),
            learns: Learning::All,
            terminal,
        }
    }

    /// Asks only the one node that was named. Refuses if none or several were.
    pub(crate) fn stay(&mut self) -> Result<(), Failure> {
        if self.source == Source::Usual || self.places.len() != 1 {
            return Err(Failure::usage("the node to begin at is not clear: name one by --server"));
        }
        self.learns = Learning::Nothing;
        Ok(())
    }

    /// The cluster as one node sees it; the others are learned from it.
    pub(crate) fn status(&mut self) -> Result<Status, Failure> {
        let mut status: Status = self.ask(&Request::Status)?;
        status.nodes.retain(|node| node.state != REMOVED);
        if status.me.parse::<NodeId>().is_err() {
            return Err(not_understood("`me` is no id of a node"));
        }
        if let (Some((asked, _)), Learning::All) = (&self.current, self.learns) {
            find::learn(&mut self.places, &status, asked);
        }
        Ok(status)
    }

    /// The cluster as one node sees it, for a verb that shows that view; says if it may be old.
    pub(crate) fn view(&mut self) -> Result<Status, Failure> {
        let status = self.status()?;
        if !status.has_quorum {
            let node = self.current.as_ref().map_or_else(String::new, |(at, _)| at.to_string());
            self.say(format!("{node} hears no majority: what it shows may be old"));
        }
        Ok(status)
    }

    /// What every node says of itself.
    pub(crate) fn survey(&mut self) -> Result<Survey, Failure> {
        let first = self.status()?;
        let heard = self.ask_each(&first, &Request::Status);
        Ok(Survey::new(first, heard))
    }

    /// Asks every node of `status` the same, in parallel: answers by id, in the nodes' order.
    pub(crate) fn ask_each<T: DeserializeOwned + Send>(
        &self,
        status: &Status,
        request: &Request,
    ) -> Vec<(String, Result<T, String>)> {
        let nobody = Endpoint::new("", 0);
        let asked = self.current.as_ref().map_or(&nobody, |(at, _)| at);
        let whom: Vec<(&str, Option<Endpoint>)> = status
            .nodes
            .iter()
            .map(|node| (node.id.as_str(), find::endpoint_of(&node.client, asked)))
            .collect();
        let (words, login, patience) = (request.words(), &self.login, self.patience.question);
        let answers = edge::ask_all(&whom, |(_, to)| {
            let to = to.as_ref().ok_or("its address cannot be read")?;
            let answer = Connection::open(to, login, patience)
                .and_then(|mut connection| connection.ask(&words, patience));
            let bytes = answer.map_err(|trouble| trouble.text().to_owned())?;
            decode(&bytes).map_err(|failure| failure.text)
        });
        whom.iter().map(|(id, _)| (*id).to_owned()).zip(answers).collect()
    }

    /// Where a node of an answer listens.
    pub(crate) fn endpoint_of(&self, client: &str) -> Option<Endpoint> {
        let nobody = Endpoint::new("", 0);
        find::endpoint_of(client, self.current.as_ref().map_or(&nobody, |(at, _)| at))
    }

    /// What it takes to talk to nodes beside this.
    pub(crate) fn door(&self) -> Door {
        Door { login: self.login.clone(), patience: self.patience }
    }

    /// Asks the node that answered last, and the others in turn if it does not.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Failure> {
        let mut tried = Vec::new();
        for place in self.in_turn() {
            if let Some((before, trouble, _)) = tried.last() {
                let (before, why): (&Place, &Trouble) = (before, trouble);
                let (before, why) = (before.shown(), why.text().to_owned());
                self.say(format!("{before}: {why}; asking {}", place.shown()));
            }
            match self.ask_one(&place, request) {
                Ok(bytes) => {
                    if self.source == Source::Usual {
                        self.say(format!("no --server given: asking {}", place.shown()));
                        self.source = Source::Given;
                    }
                    return decode(&bytes);
                }
                Err(trouble) => {
                    self.current = None;
                    match find::after(request, &trouble) {
                        Next::Stop(failure) => return Err(at(&place, failure)),
                        Next::Ask(exit) => tried.push((place, trouble, exit)),
                    }
                }
            }
        }
        Err(find::nobody(&tried, self.source))
    }

    /// Forgets the node that answered last, so that another is asked first.
    pub(crate) fn turn_away(&mut self) {
        self.current = None;
        self.places.rotate_left(1);
    }

    /// Says a notice, the first time only.
    pub(crate) fn say(&mut self, notice: String) {
        if !self.said.contains(&notice) {
            self.terminal.note(&notice);
            self.said.insert(notice);
        }
    }

    /// The places, the one with an open connection first.
    fn in_turn(&self) -> Vec<Place> {
        let current = self.current.as_ref().map(|(endpoint, _)| endpoint);
        let mut places = self.places.clone();
        places.sort_by_key(|place| Some(&place.endpoint) != current);
        places
    }

    fn ask_one(&mut self, place: &Place, request: &Request) -> Result<Vec<u8>, Trouble> {
        let Patience { question, order } = self.patience;
        let timeout = if request.is_order() { order } else { question };
        let open = self.current.take().filter(|(endpoint, _)| *endpoint == place.endpoint);
        let mut connection = match open {
            Some((_, connection)) => connection,
            None => Connection::open(&place.endpoint, &self.login, question)?,
        };
        let answer = connection.ask(&request.words(), timeout)?;
        self.current = Some((place.endpoint.clone(), connection));
        Ok(answer)
    }
}

/// Reads an answer's JSON.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| not_understood(&error.to_string()))
}

fn not_understood(why: &str) -> Failure {
    Failure::new(
        Exit::Unreachable,
        format!("the node's answer is not understood: {why}; is slotctl as new as the server?"),
    )
}

/// The failure, saying where it came from if the cluster itself did not judge.
fn at(place: &Place, failure: Failure) -> Failure {
    match failure.exit {
        Exit::Unreachable | Exit::Unfinished => {
            Failure { text: format!("{}: {}", place.shown(), failure.text), ..failure }
        }
        _ => failure,
    }
}
