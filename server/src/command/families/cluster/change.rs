//! ADDSLOTS, DELSLOTS and their kin: changes of the table that this node proposes for itself.
//!
//! Invariant: no key is lost. A slot is taken away only after it was sealed and found empty
//! under its lock, so no write comes in between; what is sealed for nothing is opened again.

use slots::{
    ChangeRefused, LossConsent, SLOTS, SlotId, SlotRange, SlotRanges, SlotTable, TableChange,
    TableVersion, Verdicts,
};

use crate::command::seals::Sealer;
use crate::command::waiting::{self, propose};
use crate::command::{Args, CommandError, NodeCx, NodeState, Outcome};
use crate::control::ProposeError;
use crate::slot::{Op, Owned, Ownership, Patience};
use crate::store::number::parse_i64;
use crate::store::table::ScanPos;

/// CLUSTER ADDSLOTS.
pub(super) fn add_slots(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    change(cx, Direction::Add, |table| Named::singles(table, Direction::Add, args))
}

/// CLUSTER ADDSLOTSRANGE.
pub(super) fn add_slots_range(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    check_pairs(args, "cluster|addslotsrange")?;
    change(cx, Direction::Add, |table| Named::ranges(table, Direction::Add, args))
}

/// CLUSTER DELSLOTS.
pub(super) fn del_slots(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    change(cx, Direction::Delete, |table| Named::singles(table, Direction::Delete, args))
}

/// CLUSTER DELSLOTSRANGE.
pub(super) fn del_slots_range(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    check_pairs(args, "cluster|delslotsrange")?;
    change(cx, Direction::Delete, |table| Named::ranges(table, Direction::Delete, args))
}

/// CLUSTER FLUSHSLOTS.
pub(super) fn flush_slots(cx: &mut NodeCx<'_>, _: &Args<'_>) -> Outcome {
    if cx.node.key_count() != 0 {
        let text = "ERR DB must be empty to perform CLUSTER FLUSHSLOTS.";
        return Err(CommandError::Static(text));
    }
    let me = cx.node.topology().me;
    change(cx, Direction::Delete, |table| Ok(table.slots_of(me)))
}

fn check_pairs(args: &Args<'_>, command: &str) -> Outcome {
    if args.len().is_multiple_of(2) { Ok(()) } else { Err(CommandError::arity(command)) }
}

/// Judges the slots by the newest table, and proposes. Slots that were changed between the two
/// are judged once more.
fn change(
    cx: &mut NodeCx<'_>,
    direction: Direction,
    judge_slots: impl Fn(&SlotTable) -> Result<SlotRanges, CommandError>,
) -> Outcome {
    waiting::catch_up(cx)?;
    let slots = judge_slots(&cx.node.topology().table)?;
    let mut outcome = direction.propose(cx, slots)?;
    let stale = stale(&outcome);
    if !stale.is_empty() {
        let table = cx.node.topology().table;
        let mut named = Named::new(&table, direction);
        stale.iter().try_for_each(|slot| named.add(slot))?;
        outcome = direction.propose(cx, stale)?;
    }
    judge(outcome)?;
    cx.reply.ok();
    Ok(())
}

/// The slots that were changed after they were judged, if all others were accepted.
fn stale(outcome: &Result<Verdicts, ProposeError>) -> SlotRanges {
    let Ok(verdicts) = outcome else { return SlotRanges::new() };
    let is_stale = |refusal: ChangeRefused| matches!(refusal, ChangeRefused::Stale { .. });
    if verdicts.whole().is_err() || !verdicts.refused().all(|(refusal, _)| is_stale(refusal)) {
        return SlotRanges::new();
    }
    verdicts.refused().flat_map(|(_, slots)| slots.iter()).collect()
}

/// Which way slots go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Add,
    Delete,
}

/// The slots a command names, checked one by one in the order named.
struct Named<'t> {
    table: &'t SlotTable,
    direction: Direction,
    seen: Box<[bool; SLOTS]>,
}

impl<'t> Named<'t> {
    fn new(table: &'t SlotTable, direction: Direction) -> Named<'t> {
        Named { table, direction, seen: Box::new([false; SLOTS]) }
    }

    fn singles(
        table: &SlotTable,
        direction: Direction,
        args: &Args<'_>,
    ) -> Result<SlotRanges, CommandError> {
        // All words are read before the first slot is judged, as Redis does.
        let slots = args.from(2).map(parse_slot).collect::<Result<Vec<SlotId>, _>>()?;
        let mut named = Named::new(table, direction);
        slots.into_iter().try_for_each(|slot| named.add(slot))?;
        Ok(named.finish())
    }

    fn ranges(
        table: &SlotTable,
        direction: Direction,
        args: &Args<'_>,
    ) -> Result<SlotRanges, CommandError> {
        let mut named = Named::new(table, direction);
        for at in (2..args.len()).step_by(2) {
            let (first, last) = (parse_slot(args.at(at))?, parse_slot(args.at(at + 1))?);
            let Some(range) = SlotRange::new(first, last) else {
                return Err(CommandError::err(format_args!(
                    "start slot number {first} is greater than end slot number {last}"
                )));
            };
            range.slots().try_for_each(|slot| named.add(slot))?;
        }
        Ok(named.finish())
    }

    fn add(&mut self, slot: SlotId) -> Outcome {
        let owned = self.table.owner(slot).is_some();
        let why = match self.direction {
            Direction::Add if owned => "is already busy",
            Direction::Delete if !owned => "is already unassigned",
            _ if self.seen[slot.index()] => "specified multiple times",
            _ => {
                self.seen[slot.index()] = true;
                return Ok(());
            }
        };
        Err(CommandError::err(format_args!("Slot {slot} {why}")))
    }

    fn finish(self) -> SlotRanges {
        SlotId::all().filter(|slot| self.seen[slot.index()]).collect()
    }
}

pub(super) fn parse_slot(word: &[u8]) -> Result<SlotId, CommandError> {
    let number = parse_i64(word).and_then(|n| u16::try_from(n).ok());
    let refusal = CommandError::Static("ERR Invalid or out of range slot");
    number.and_then(SlotId::new).ok_or(refusal)
}

impl Direction {
    fn propose(
        self,
        cx: &mut NodeCx<'_>,
        slots: SlotRanges,
    ) -> Result<Result<Verdicts, ProposeError>, CommandError> {
        match self {
            Direction::Add => {
                let topology = cx.node.topology();
                let seen = topology.table.version();
                propose(cx, TableChange::AssignSlots { slots, to: topology.me, seen })
            }
            Direction::Delete => unassign(cx, slots),
        }
    }
}

fn unassign(
    cx: &mut NodeCx<'_>,
    slots: SlotRanges,
) -> Result<Result<Verdicts, ProposeError>, CommandError> {
    let mut seals = Seals { node: cx.node, sealed: Vec::new(), unsure: Vec::new() };
    for slot in slots.iter() {
        seals.seal(cx, slot)?;
    }
    // Read after the last seal: a slot that changes after this refuses.
    let seen = cx.node.topology().table.version();
    let consent = LossConsent::NotGiven;
    let outcome = propose(cx, TableChange::UnassignSlots { slots, seen, consent })?;
    seals.note(&outcome, seen);
    Ok(outcome)
}

/// Slots closed to commands until the table has decided. Those that it left to this node are
/// opened again when this is dropped.
struct Seals<'n> {
    node: &'n NodeState,
    sealed: Vec<SlotId>,
    /// Closed by a command before whose outcome was not known: only an answer opens them.
    unsure: Vec<SlotId>,
}

impl Seals<'_> {
    /// Closes an empty slot of this node.
    fn seal(&mut self, cx: &mut NodeCx<'_>, slot: SlotId) -> Outcome {
        let node = self.node;
        if self.is_left_sealed(slot) {
            self.unsure.push(slot);
            return Ok(());
        }
        if let Some(planned) = node.topology().table.slot(slot).planned_move() {
            let id = planned.id;
            return Err(CommandError::err(format_args!(
                "Slot {slot} is on its way to another node: wait for move {id}, or cancel it \
                 (slotctl cancel {id})"
            )));
        }
        let sealed = cx.enter(slot, Patience::Spin, |owned| {
            empties(owned).then(|| node.seal(slot, owned.epoch(), Sealer::Order))
        })?;
        match sealed {
            Some(Some(true)) => {
                self.sealed.push(slot);
                Ok(())
            }
            // The table changed in between.
            Some(Some(false)) => {
                Err(CommandError::err(format_args!("Slot {slot} is not this node's")))
            }
            Some(None) => {
                let why = "holds keys: delete or move them first";
                Err(CommandError::err(format_args!("Slot {slot} {why}")))
            }
            None => Err(CommandError::err(format_args!("Slot {slot} is not this node's"))),
        }
    }

    /// Was it sealed by a command before, and has the table said nothing of it since?
    fn is_left_sealed(&self, slot: SlotId) -> bool {
        let is_sealed = self.node.rooms.ownership(slot).0 == Ownership::Sealed;
        is_sealed && self.node.seals.is_unsure(slot)
    }

    /// The table has answered, or not.
    fn note(&mut self, outcome: &Result<Verdicts, ProposeError>, seen: TableVersion) {
        match outcome {
            // It may be committed yet, now or by a proposal before.
            Err(ProposeError::Unknown) => {
                let all = self.sealed.drain(..).chain(self.unsure.drain(..));
                self.node.seals.leave_unsure(all, seen);
            }
            Err(_) => self.unsure.clear(),
            Ok(_) => {}
        }
    }
}

impl Drop for Seals<'_> {
    fn drop(&mut self) {
        for slot in self.sealed.drain(..).chain(self.unsure.drain(..)) {
            self.node.unseal(slot, Sealer::Order);
        }
    }
}

/// Is the slot empty, once the keys are gone that are past their time?
fn empties(owned: &mut Owned<'_>) -> bool {
    if owned.keys().is_empty() {
        return true;
    }
    let mut next = Some(ScanPos::START);
    let mut is_live = false;
    while let Some(position) = next.filter(|_| !is_live) {
        next = owned.keys().scan(position, &mut |_| is_live = true);
    }
    if !is_live {
        owned.apply(Op::Flush);
    }
    !is_live
}

fn judge(outcome: Result<Verdicts, ProposeError>) -> Outcome {
    let verdicts = outcome.map_err(not_proposed)?;
    verdicts.whole().map_err(|refusal| CommandError::err(format_args!("refused: {refusal}")))?;
    match verdicts.refused().next() {
        None => Ok(()),
        Some((refusal, slots)) => {
            Err(CommandError::err(format_args!("refused for slots {slots}: {refusal}")))
        }
    }
}

fn not_proposed(error: ProposeError) -> CommandError {
    CommandError::Static(match error {
        ProposeError::Fixed => {
            "ERR the slot table was fixed at the start and is shared with other nodes: it cannot \
             be changed"
        }
        ProposeError::NoQuorum => "CLUSTERDOWN no quorum: the change was not made",
        ProposeError::Unknown => {
            "ERR it is not known whether the change was made: look at CLUSTER SLOTS, and give the \
             command again if it was not"
        }
        ProposeError::TooLong { limit, got } => {
            return CommandError::err(format_args!("{}", too_long(limit, got)));
        }
    })
}

/// A change that no entry of the log can hold: it can be made in parts.
pub(in crate::command::families) fn too_long(limit: usize, got: usize) -> String {
    format!(
        "the change takes {got} bytes, at most {limit} fit an entry of the log: it was not made; \
         give shorter values, or fewer slots at once"
    )
}
