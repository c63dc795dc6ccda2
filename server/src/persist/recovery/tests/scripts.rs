//! INV-8 through the disk: every script of the command families is played on a node whose journal
//! is the log, with a checkpoint taken while it goes on. What a start finds is what the node has.
//!
//! Not the sink's own rules (`stream`). Invariant: keys, expiries, values, encodings, the slot's
//! index and epoch are the same; a slot that was given up on the way has its last life only.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::persist::checkpoint::take_by;
use crate::persist::checkpoint::tests::{Edge, SMALL, about};
use crate::slot::room::Rooms;
use crate::store::limits::Limits;
use crate::stream::put_op;
use crate::stream::tests::{bare_rooms, check_totals, dump, scripts, steps};
use crate::testing::{TestNode, play};

/// A node whose groups go to a log.
struct Stage {
    node: TestNode,
    keeper: Keeper<SimDisk>,
    journal: Arc<ToLog>,
    /// The limits each group was made under: they choose forms.
    limits: BTreeMap<(SlotId, OpIndex), Limits>,
}

impl Stage {
    fn new(disks: &Disks) -> Stage {
        let trust = Trust::ProcessDied;
        let started = start(disks, &bare_rooms(), (trust, 1), |_| {}).expect("an empty folder");
        let Started { mut keeper, .. } = started;
        keeper.tend().expect("there is room");
        let (node, journal) = (TestNode::new(&[]), ToLog::new(keeper.wal()));
        node.node.rooms.set_journal(journal.clone(), put_op);
        Stage { node, keeper, journal, limits: BTreeMap::new() }
    }

    fn play(&mut self, step: &str) {
        play(&mut self.node, step);
        let limits = *self.node.node.rooms.limits();
        for (slot, index, _) in self.journal.noted.lock().drain(..) {
            self.limits.insert((slot, index), limits);
        }
        self.keeper.tend().expect("there is room");
    }

    fn slots(&self) -> BTreeSet<SlotId> {
        self.limits.keys().map(|(slot, _)| *slot).collect()
    }
}

/// Plays a script; from line `from` on (`None`: never) a checkpoint is taken, and the lines go on
/// between its chunks.
fn perform(script: &[&str], from: Option<usize>, disks: &Disks) -> Stage {
    let mut stage = Stage::new(disks);
    let state = stage.node.node.clone();
    let (before, after) = script.split_at(from.unwrap_or(script.len()));
    before.iter().for_each(|step| stage.play(step));
    let mut after = after.iter();
    if from.is_some() {
        let floors: Vec<u64> = (0..LANES).map(|lane| stage.keeper.wal().tail(lane)).collect();
        let wal = Arc::clone(stage.keeper.wal());
        let mut edge = Edge::new(|_| {
            after.next().into_iter().for_each(|step| stage.play(step));
            true
        });
        edge.sync = Box::new(move || wal.sync_round().map(drop));
        take_by(SMALL, &state.rooms, &disks.checkpoint, about(0), &edge).expect("taken");
        drop(edge);
        stage.keeper.drop_before(&floors).expect("the disk is sound");
    }
    after.for_each(|step| stage.play(step));
    stage
}

fn check(name: &str, script: &[&str], from: Option<usize>) -> usize {
    let disks = Disks::new(7);
    let stage = perform(script, from, &disks);
    let (state, slots) = (stage.node.node.clone(), stage.slots());
    let rooms = bare_rooms();
    let after = disks.after_death(None);
    let started = start(&after, &rooms, (Trust::ProcessDied, 2), |found| {
        let limits = stage.limits[&(found.entry.slot, found.entry.index)];
        rooms.set_limits(limits);
    });
    let started = started.unwrap_or_else(|e| panic!("{name}, checkpoint at {from:?}: {e}"));
    assert_eq!(started.number, u64::from(from.is_some()));
    let (mut keys, read) = (0, |rooms: &Rooms, slot| {
        let reading = rooms.read(slot);
        (reading.index(), reading.epoch())
    });
    for slot in &slots {
        let (want, got) = (dump(&state.rooms, *slot), dump(&rooms, *slot));
        assert_eq!(want, got, "{name}, checkpoint at {from:?}");
        let (index, epoch) = read(&state.rooms, *slot);
        assert_eq!(read(&rooms, *slot).0, index, "{name}, checkpoint at {from:?}");
        // A table change without a group leaves no trace of its own in the log.
        assert!(read(&rooms, *slot).1 <= epoch, "{name}, checkpoint at {from:?}");
        keys += want.len() as u64;
    }
    assert_eq!(started.loaded.keys, keys, "{name}: keys of other slots");
    check_totals(&rooms, &slots);
    slots.len()
}

#[test]
fn every_script_ends_in_the_same_keys_after_a_start() {
    let mut played = 0;
    for (name, script) in scripts() {
        let script = steps(&script);
        if check(&name, &script, None) == 0 {
            continue;
        }
        played += 1;
        for from in [0, script.len() / 2] {
            check(&name, &script, Some(from));
        }
    }
    assert!(played > 65, "only {played} scripts changed a key");
}
