//! Forms a cluster of three nodes, and lets a fourth one take over its share.
//!
//! By what any operator may send: CLUSTER NODES, SLOTS, INFO, ADDSLOTSRANGE, DELSLOTSRANGE.
//! Invariant: slots go over empty, and a step is done when every node tells the same table.

use std::io;
use std::time::Duration;

use slots::{Endpoint, SlotRanges};

use super::edge::{self, Nodes};
use super::plan::{NEWCOMER, NODES_BEFORE, Plan};
use super::wire::{Connection, Reply};
use crate::router::SlotMap;

/// How long nodes may take to start, to find each other, and to agree.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts three nodes, one after the other, which own all slots then.
pub(super) fn form(nodes: &mut dyn Nodes, plan: &Plan) -> io::Result<()> {
    for _ in 0..NODES_BEFORE {
        nodes.start_next()?;
        until_all_know_all(nodes.endpoints())?;
    }
    for (at, node) in nodes.endpoints().iter().enumerate() {
        order(node, "ADDSLOTSRANGE", plan.before(at))?;
    }
    until_all_tell(nodes.endpoints(), &plan.map_before(nodes.endpoints()))
}

/// Starts a fourth one, which takes over a quarter of the slots.
pub(super) fn grow(nodes: &mut dyn Nodes, plan: &Plan) -> io::Result<()> {
    nodes.start_next()?;
    until_all_know_all(nodes.endpoints())?;
    for (at, node) in nodes.endpoints().iter().enumerate().take(NODES_BEFORE) {
        order(node, "DELSLOTSRANGE", plan.given_up(at))?;
    }
    // Each node judges by its own copy of the table: the newcomer must have seen them given up.
    until_all_tell(nodes.endpoints(), &plan.map_between(nodes.endpoints()))?;
    order(&nodes.endpoints()[NEWCOMER], "ADDSLOTSRANGE", &plan.taken_over())?;
    until_all_tell(nodes.endpoints(), &plan.map_after(nodes.endpoints()))
}

fn until_all_know_all(nodes: &[Endpoint]) -> io::Result<()> {
    until_each(nodes, "all nodes know each other", |connection| {
        let known = connection.ask_text(&["CLUSTER", "NODES"])?.lines().count();
        Ok(if known == nodes.len() { Ok(()) } else { Err(format!("it knows {known}")) })
    })
}

fn until_all_tell(nodes: &[Endpoint], map: &SlotMap) -> io::Result<()> {
    until_each(nodes, "all nodes tell the same table and serve", |connection| {
        if connection.map()? != *map {
            return Ok(Err("it has another table".into()));
        }
        let info = connection.ask_text(&["CLUSTER", "INFO"])?;
        let is_up = info.lines().any(|line| line == "cluster_state:ok");
        Ok(if is_up { Ok(()) } else { Err("it does not serve".into()) })
    })
}

/// Asks each node until it says so.
fn until_each(
    nodes: &[Endpoint],
    what: &str,
    look: impl Fn(&mut Connection) -> io::Result<Result<(), String>>,
) -> io::Result<()> {
    edge::wait(PATIENCE, what, || {
        nodes.iter().try_for_each(|node| {
            let seen = Connection::open(node).and_then(|mut connection| look(&mut connection));
            let why = match seen {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(why)) => why,
                Err(error) => error.to_string(),
            };
            Err(format!("{node}: {why}"))
        })
    })
}

/// Has a node add or give up slots. What cannot be decided now is sent again: while a new leader
/// is chosen no change is made.
fn order(node: &Endpoint, verb: &str, slots: &SlotRanges) -> io::Result<()> {
    let mut words = vec!["CLUSTER".to_owned(), verb.to_owned()];
    for range in slots.ranges() {
        words.extend([range.first().to_string(), range.last().to_string()]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut connection = Connection::open(node)?;
    let refused = edge::wait(PATIENCE, verb, || match connection.ask(&words) {
        Ok(Reply::SimpleString(_)) => Ok(None),
        Ok(Reply::Error(error)) if is_later(&error) => Err(error),
        Ok(other) => Ok(Some(format!("{other:?}"))),
        Err(error) => Ok(Some(error.to_string())),
    })?;
    match refused {
        None => Ok(()),
        Some(why) => Err(io::Error::other(format!("{node}: CLUSTER {verb} {slots}: {why}"))),
    }
}

/// Is this a refusal that is over soon?
pub(super) fn is_later(error: &str) -> bool {
    ["CLUSTERDOWN", "TRYAGAIN", "LOADING"].iter().any(|word| error.starts_with(word))
}
