//! Where walks, searches and scenarios begin, how much may happen in them, and the model as the
//! checker sees it.
//!
//! Invariant: a world is sound at its start: every node runs its boot 0, and every member in sync
//! holds everything.

use crate::actions::{Action, enabled};
use crate::node::Node;
use crate::oracle::Oracle;
use crate::properties::{Broken, check};
use crate::rules::Rules;
use crate::state::{Grants, Spent, State};
use crate::step::step;
use crate::table::{Ack, Row, Table};
use crate::words::{Id, NODES, Set};
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};

const A: Id = Id(0);
const B: Id = Id(1);
const C: Id = Id(2);

/// How much may happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each limits the field of `Spent` with its name, or what its name says.
pub struct Limits {
    pub writes: u8,
    pub crashes: u8,
    pub proposals: u8,
    pub asks: u8,
    pub orders: u8,
    pub versions: u8,
    pub frames: usize,
}

impl Limits {
    /// Enough for every rule to matter, little enough for walks to come to an end.
    pub const WALK: Limits =
        Limits { writes: 4, crashes: 4, proposals: 8, asks: 3, orders: 4, versions: 24, frames: 8 };
    /// For breadth-first prefixes.
    pub const SEARCH: Limits =
        Limits { writes: 2, crashes: 2, proposals: 3, asks: 1, orders: 1, versions: 8, frames: 3 };
}

/// A start: the slot is A's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// A alone, nobody wanted: C or B may get a move.
    Single,
    /// B follows in sync.
    Pair,
    /// B and C follow in sync.
    Trio,
    /// B and C follow; ack = local.
    Local,
}

impl World {
    /// All of them.
    pub const ALL: [World; 4] = [World::Single, World::Pair, World::Trio, World::Local];

    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            World::Single => "single",
            World::Pair => "pair",
            World::Trio => "trio",
            World::Local => "local",
        }
    }

    /// The world of a name.
    pub fn named(name: &str) -> Option<World> {
        World::ALL.into_iter().find(|world| world.name() == name)
    }

    /// Its first state.
    pub fn state(self) -> State {
        let (followers, ack) = match self {
            World::Single => (Set::default(), Ack::InSync),
            World::Pair => (Set::of(&[B]), Ack::InSync),
            World::Trio => (Set::of(&[B, C]), Ack::InSync),
            World::Local => (Set::of(&[B, C]), Ack::Local),
        };
        let members = if ack == Ack::Local { Set::default() } else { followers };
        let in_sync = members.with(A);
        let row =
            Row { owner: A, epoch: 0, ver: 0, in_sync, followers, removed: None, ack, order: None };
        let mut state = State {
            log: vec![Table { row, boots: [0; NODES], done: None }],
            proposed: BTreeMap::new(),
            net: BTreeSet::new(),
            nodes: std::array::from_fn(|_| Node::default()),
            grants: Grants::default(),
            spent: Spent::default(),
            oracle: Oracle::default(),
        };
        state.settle_waits(&Rules::ALL);
        state
    }
}

/// The protocol, for the checker.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// The rules that are kept.
    pub rules: Rules,
    /// How much may happen.
    pub limits: Limits,
    /// Where it begins.
    pub world: World,
}

fn holds(broken: Broken) -> fn(&Protocol, &State) -> bool {
    // The checker takes plain functions: one each.
    match broken {
        Broken::OneVoice => |m, s| check(&m.rules, s) != Some(Broken::OneVoice),
        Broken::MembersHold => |m, s| check(&m.rules, s) != Some(Broken::MembersHold),
        Broken::FreshReads => |m, s| check(&m.rules, s) != Some(Broken::FreshReads),
        Broken::Forward => |m, s| check(&m.rules, s) != Some(Broken::Forward),
        Broken::OneName => |m, s| check(&m.rules, s) != Some(Broken::OneName),
        Broken::Whole => |m, s| check(&m.rules, s) != Some(Broken::Whole),
        Broken::Sound => |m, s| check(&m.rules, s) != Some(Broken::Sound),
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.world.state()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        enabled(&self.rules, &self.limits, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        step(&self.rules, state, &action).map(|(next, _)| next)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        Broken::ALL.iter().map(|(broken, name)| Property::always(name, holds(*broken))).collect()
    }
}
