//! Clients: careful ones that follow MOVED, stale ones that never do, and a probe that asks every
//! node the same.
//!
//! Invariant: a client knows what it was told, and nothing else.

use slots::{Redirect, SlotId};

use super::{Event, World, host_at};
use crate::clock::{MS, Us};
use crate::log::HostIx;
use crate::net::{Ask, Body, Message, Place};
use crate::oracle::{KEYS, Left, Word, owners_in};
use crate::resp::{Value, encode, only};

/// A client waits so long for a reply.
const PATIENCE: Us = 1_000 * MS;
/// The operator's connection; no client has this number.
pub(super) const OPERATOR: usize = 900;
/// The oracle's own connection.
pub(super) const EXAMINER: usize = 901;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Careful,
    Stale,
    Probe,
}

/// A client.
pub(super) struct Client {
    kind: Kind,
    /// Whom it takes for the owner of each key.
    map: Vec<Option<HostIx>>,
    waits: Option<(u64, Us)>,
    next_key: usize,
}

impl World {
    pub(super) fn open_clients(&mut self) {
        let kinds = [Kind::Careful, Kind::Careful, Kind::Stale, Kind::Probe];
        for (client, kind) in kinds.into_iter().enumerate() {
            let map = vec![None; KEYS];
            self.clients.push(Client { kind, map, waits: None, next_key: 0 });
            self.plan_in(self.now + 200 * MS, Event::Turn { client });
        }
    }

    /// A client's turn.
    pub(super) fn turn(&mut self, client: usize) {
        if self.phase == super::Phase::Done {
            return;
        }
        let pause = self.dice.between(15, 60) * MS;
        self.plan_in(pause, Event::Turn { client });
        let at = &mut self.clients[client];
        if at.kind == Kind::Probe {
            let key = at.next_key;
            at.next_key = (key + 1) % KEYS;
            for host in 0..self.hosts.len() {
                self.request(client, host, vec![Ask::Key(Word::Incr, key)]);
            }
            return;
        }
        if at.waits.is_some_and(|(_, until)| self.now < until) {
            return;
        }
        let any = self.dice.below(self.hosts.len());
        let knows = self.clients[client].map.iter().all(Option::is_some);
        let is_stale = self.clients[client].kind == Kind::Stale;
        if is_stale && !knows || !is_stale && self.dice.chance(100) {
            return self.request(client, any, vec![Ask::Slots]);
        }
        let key = self.dice.below(KEYS);
        let host = self.clients[client].map[key].unwrap_or(any);
        let asks = (0..=self.dice.below(3)).map(|_| Ask::Key(self.draw_word(), key)).collect();
        self.request(client, host, asks);
    }

    fn draw_word(&mut self) -> Word {
        match self.dice.below(20) {
            0 => Word::Del,
            1..=6 => Word::Get,
            _ => Word::Incr,
        }
    }

    pub(super) fn request(&mut self, client: usize, host: HostIx, asks: Vec<Ask>) {
        self.next_token += 1;
        let token = self.next_token;
        if let Some(client) = self.clients.get_mut(client) {
            client.waits = Some((token, self.now + PATIENCE));
        }
        let (from, to) = (Place::Client(client), Place::Host(host));
        self.send(Message { from, to, body: Body::Request { token, asks } });
    }

    /// A process answers.
    pub(super) fn serve(&mut self, host: HostIx, client: usize, token: u64, asks: &[Ask]) {
        let mut replies = Vec::new();
        for ask in asks {
            let Some(reply) = self.ask(host, client, ask) else { return };
            replies.push((ask.clone(), reply));
        }
        let (from, to) = (Place::Host(host), Place::Client(client));
        self.send(Message { from, to, body: Body::Reply { token, replies } });
    }

    /// One command to a process, now, before the oracle's eyes.
    pub(super) fn ask(&mut self, host: HostIx, client: usize, ask: &Ask) -> Option<Value> {
        let bytes = match ask {
            Ask::Key(word, key) => encode(&[word.name(), &self.oracle.keys[*key].0]),
            Ask::Slots => encode(&["CLUSTER", "SLOTS"]),
            Ask::Words(words) => encode(&words.iter().map(String::as_str).collect::<Vec<_>>()),
        };
        let (now, at) = (self.clock(host), self.at(host)?);
        let process = self.hosts[host].process.as_mut()?;
        let replied = process.node.serve(client, &bytes, now);
        let (node, version) = (&process.node, process.node.version());
        if replied.is_empty() {
            // A command that waits for a room: the world's clients give up at once.
            self.oracle.coverage.count("reply", "none: the room is closed for now");
            return None;
        }
        let Some(reply) = only(&replied) else {
            let text =
                format!("host {host}: {ask:?} gives {:?}", replied.escape_ascii().to_string());
            self.oracle.fail("ERRORS", text);
            return None;
        };
        if let Ask::Key(word, key) = *ask {
            let slot = self.oracle.keys[key].1;
            let epoch = node.state.rooms.ownership(slot).1;
            self.oracle.left(&Left { at, version, key, word, epoch, reply: &reply });
            if !matches!(reply, Value::Error(_)) {
                self.note(|| format!("host {host} {} key-{key}: {reply:?}", word.name()));
            }
        }
        if *ask == Ask::Slots {
            self.compare_topology(host, &reply);
        }
        Some(reply)
    }

    /// What a node answers for each key at the moment of its CLUSTER SLOTS.
    pub(super) fn compare_topology(&mut self, host: HostIx, told: &Value) {
        let mut answers = Vec::new();
        for key in 0..KEYS {
            let Some(answer) = self.ask(host, EXAMINER, &Ask::Key(Word::Get, key)) else { return };
            answers.push(answer);
        }
        let (Some(at), Some(process)) = (self.at(host), &self.hosts[host].process) else { return };
        if !process.node.plays() {
            return;
        }
        let topology = process.node.state.topology();
        let my_port = topology.table.node(topology.me).map(|row| row.addresses.client.port);
        self.oracle.check_topology(at, my_port, told, &answers);
    }

    /// A reply reaches its client.
    pub(super) fn hear(&mut self, client: usize, message: Message) {
        let (Body::Reply { token, replies }, Place::Host(from)) = (message.body, message.from)
        else {
            return;
        };
        let slots: Vec<SlotId> = self.oracle.keys.iter().map(|(_, slot)| *slot).collect();
        let Some(client) = self.clients.get_mut(client) else { return };
        if client.kind == Kind::Probe {
            return;
        }
        if client.waits.is_none_or(|(waited, _)| waited != token) {
            return;
        }
        client.waits = None;
        for (ask, reply) in replies {
            match (ask, reply) {
                (Ask::Slots, reply) => {
                    let owners = owners_in(&reply, &slots).unwrap_or_default();
                    for (key, slot) in slots.iter().enumerate() {
                        let owner = owners.get(slot).copied().and_then(host_at);
                        client.map[key] = owner.or(client.map[key]);
                    }
                }
                (Ask::Key(_, key), Value::Error(text)) if client.kind == Kind::Careful => {
                    let redirect = Redirect::parse(&text);
                    client.map[key] = redirect.and_then(|to| host_at(to.port));
                }
                (Ask::Key(..), Value::Error(_)) => {
                    self.oracle.coverage.count("client", "stale one refused");
                }
                (Ask::Key(_, key), _) if client.kind == Kind::Careful => {
                    client.map[key] = Some(from);
                }
                _ => {}
            }
        }
    }
}
