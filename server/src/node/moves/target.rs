//! The other side: letters of owners are carried out, and what they bring is kept in stages.
//!
//! ```text
//!   letter --wait for its table--> each item: Begin, frames, groups -> stage; Handover -> expected
//!          --wait until as safe as this node promises--> reply: how each slot's copy stands
//! ```
//! Not the stages (`slot/stages`). Invariant (R0): a reply says `Holds(n)` when the whole copy up
//! to n is as safe as this node promises; a letter that was carried out is answered again, and not
//! carried out again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slots::{Boot, NodeId, SlotId, SlotTable, TableVersion};

use crate::command::NodeState;
use crate::control::seat::Standing;
use crate::io::clock;
use crate::migration::letter::{Item, Letter, Malformed, Reply, Said, Stands, State};
use crate::slot::{Position, StagedCopy};
use crate::stream::{Arrival, groups_of};

/// How long a letter waits here for the table it was written at.
const TABLE_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at the table, or at the log.
const LOOK: Duration = Duration::from_micros(200);

/// What comes to this node.
pub(in crate::node) struct Target {
    node: Arc<NodeState>,
    /// One letter of an owner at a time.
    owners: Mutex<BTreeMap<NodeId, Arc<tokio::sync::Mutex<Owner>>>>,
}

/// What is known of one owner's copies here.
#[derive(Default)]
struct Owner {
    channel: u64,
    /// The last letter that was carried out, and what came of it.
    number: u64,
    carried: Carried,
    copies: BTreeMap<SlotId, Copy>,
}

#[derive(Default)]
struct Carried {
    states: Vec<State>,
    version: TableVersion,
    /// What has to be as safe as this node promises before it is answered.
    unsafe_at: Vec<Position>,
}

struct Copy {
    attempt: u32,
    /// `None`: it is void, and whatever comes for it is answered so.
    stage: Option<Arc<StagedCopy>>,
}

impl Target {
    pub(in crate::node) fn new(node: Arc<NodeState>) -> Target {
        Target { node, owners: Mutex::default() }
    }

    /// Carries a letter out. An error is a refusal: what came was no letter.
    pub(in crate::node) async fn answer(
        &self,
        from: NodeId,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, String> {
        let letter = Letter::read(&body).map_err(|error| error.to_string())?;
        let head = letter.head;
        let owner = self.owners.lock().entry(from).or_default().clone();
        let mut owner = owner.lock().await;
        if owner.channel != head.channel {
            // Copies of before are void, and their stages go with the next look at the table.
            *owner = Owner { channel: head.channel, ..Owner::default() };
        }
        if head.number < owner.number {
            return Err("an old letter".to_owned());
        }
        if head.number > owner.number {
            let table = self.table_at(head.version).await?;
            let (mut states, mut unsafe_at) = (BTreeMap::new(), Vec::new());
            let read =
                self.carry_out(letter, &mut owner, from, &table, &mut states, &mut unsafe_at);
            // From here on it was carried out, whatever becomes of this call.
            owner.number = head.number;
            owner.carried = Carried {
                states: states.into_values().collect(),
                version: table.version(),
                unsafe_at,
            };
            read.map_err(|error| error.to_string())?;
        }
        for position in owner.carried.unsafe_at.clone() {
            self.wait_safe(position).await;
        }
        let topology = self.node.topology();
        let boot = topology.table.node(topology.me).map_or(Boot(0), |row| row.boot);
        let (version, states) = (owner.carried.version, owner.carried.states.clone());
        Ok(Reply { boot, version, states }.encode())
    }

    /// The table, once it is as new as the letter's.
    async fn table_at(&self, version: TableVersion) -> Result<Arc<SlotTable>, String> {
        let until = tokio::time::Instant::now() + TABLE_PATIENCE;
        loop {
            let topology = self.node.topology();
            if topology.standing == Standing::Seated && topology.table.version() >= version {
                return Ok(topology.table);
            }
            if tokio::time::Instant::now() >= until {
                return Err(format!("this node's table is at {}", topology.table.version()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until what ends there is as safe as this node promises.
    async fn wait_safe(&self, position: Position) {
        let promises = &self.node.promises;
        let Some(log) = promises.log() else { return };
        let is_safe = || match promises.waits_for_syncs() {
            true => log.is_synced(position),
            false => log.is_written(position),
        };
        while !is_safe() {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn carry_out(
        &self,
        mut letter: Letter<'_>,
        owner: &mut Owner,
        from: NodeId,
        table: &SlotTable,
        states: &mut BTreeMap<SlotId, State>,
        unsafe_at: &mut Vec<Position>,
    ) -> Result<(), Malformed> {
        let me = self.node.topology().me;
        let mut newest = BTreeMap::<u16, Position>::new();
        while let Some(item) = letter.next_item()? {
            let row = table.slot(item.slot);
            let is_target = row.planned_move().is_some_and(|planned| planned.to == me);
            let stands = if row.owner() != Some(from) || row.epoch() > item.epoch {
                Stands::Fenced(row.epoch())
            } else if row.epoch() < item.epoch {
                Stands::Behind
            } else if !is_target && !row.is_in_sync(me) {
                Stands::Apart
            } else {
                let (stands, position) = self.take(owner, &item, row.is_in_sync(me));
                if let Some(position) = position {
                    newest.insert(position.lane, position);
                }
                stands
            };
            let (slot, attempt) = (item.slot, item.attempt);
            states.insert(slot, State { slot, attempt, stands });
        }
        unsafe_at.extend(newest.into_values());
        Ok(())
    }

    /// One who is in sync never discards its copy (R3): it is let go of first, through the table.
    fn take(
        &self,
        owner: &mut Owner,
        item: &Item<'_>,
        is_in_sync: bool,
    ) -> (Stands, Option<Position>) {
        let (node, slot) = (&*self.node, item.slot);
        if is_in_sync && matches!(item.said, Said::Begin { .. }) {
            return (Stands::Apart, None);
        }
        if let Said::Begin { bytes, .. } = item.said {
            if self.lacks_room(bytes) {
                owner.copies.remove(&slot);
                node.rooms.drop_stage(slot);
                return (Stands::NoRoom, None);
            }
            // The owner begins anew: it counts on nothing that is here.
            node.rooms.drop_kept(slot);
            let arrival = Box::new(Arrival::new(slot));
            let stage = node.rooms.begin_stage(slot, item.epoch, arrival).ok();
            let stands = if stage.is_some() { Stands::Filling } else { Stands::Apart };
            owner.copies.insert(slot, Copy { attempt: item.attempt, stage });
            return (stands, None);
        }
        let copy = owner.copies.get_mut(&slot).filter(|copy| copy.attempt == item.attempt);
        let Some(copy) = copy else { return (Stands::Apart, None) };
        let Some(stage) = copy.stage.clone() else { return (Stands::Apart, None) };
        let now = clock::now();
        let mut position = None;
        let outcome = match item.said {
            Said::Begin { .. } => Ok(()),
            Said::Frame(frame) => {
                let taken = stage.frame(&node.rooms, frame, now.unix_ms);
                taken.map(|at| position = at).map_err(|error| error.to_string())
            }
            Said::Groups(groups) => self.take_groups(&stage, groups, now.unix_ms, &mut position),
            Said::Handover { last, .. } if stage.is_whole() && stage.place().1 == last => {
                node.parking.expect(slot, item.epoch, now.mono_ns);
                return (Stands::Handed(last), None);
            }
            Said::Handover { .. } => Err("a hand-over of what is not all here".to_owned()),
            Said::Drop => Err("it is not wanted".to_owned()),
        };
        if let Err(error) = outcome {
            tracing::warn!(slot = slot.number(), %error, "a copy on its way here is void");
            copy.stage = None;
            if !is_in_sync {
                node.rooms.drop_stage(slot);
            }
            return (Stands::Apart, None);
        }
        match stage.is_whole() {
            true => (Stands::Holds(stage.place().1), position),
            false => (Stands::Filling, position),
        }
    }

    fn take_groups(
        &self,
        stage: &StagedCopy,
        payload: &[u8],
        now_ms: u64,
        position: &mut Option<Position>,
    ) -> Result<(), String> {
        for group in groups_of(payload) {
            let group = group.map_err(|error| error.to_string())?;
            let place = (group.epoch, group.index);
            let taken = stage.group(&self.node.rooms, place, group.bytes, now_ms);
            *position = taken.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Would a copy of so many bytes go beyond `maxmemory`?
    fn lacks_room(&self, bytes: u64) -> bool {
        let max = self.node.config.live().maxmemory.load();
        max != 0 && self.node.edges.memory().allocated.saturating_add(bytes) > max
    }

    /// Drops stages and hidden copies that the table has no use for. The node's ticker calls it.
    pub(in crate::node) fn tick(&self) {
        let (staged, kept) = (self.node.rooms.staged_slots(), self.node.rooms.kept_slots());
        if staged.is_empty() && kept.is_empty() {
            return;
        }
        let topology = self.node.topology();
        if topology.standing != Standing::Seated {
            return;
        }
        for slot in staged {
            let row = topology.table.slot(slot);
            let is_target = row.planned_move().is_some_and(|planned| planned.to == topology.me);
            let is_owner = row.owner() == Some(topology.me);
            if !is_target && !is_owner && !row.is_in_sync(topology.me) {
                self.node.rooms.drop_stage(slot);
            }
        }
        for slot in kept {
            let row = topology.table.slot(slot);
            if row.owner() != Some(topology.me) && !row.is_in_sync(topology.me) {
                self.node.rooms.drop_kept(slot);
            }
        }
    }
}
