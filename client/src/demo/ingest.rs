//! An ingest box: it writes readings, each to the node that its own map names, and follows no
//! redirect. Pure: what it sends and what it was answered, not the sending.
//!
//! Invariant: a reading that was refused is kept until it is acknowledged. What a box has taken
//! in is acknowledged, or kept, or on its way.

use std::collections::BTreeMap;
use std::sync::Arc;

use slots::{Endpoint, SlotId, slot_of};

use super::plan::Plan;
use crate::router::SlotMap;

/// How many boxes there are.
pub(super) const BOXES: usize = 4;
/// The box that is told late.
pub(super) const LATE: usize = BOXES - 1;

/// The number of one reading of one box; its key and value are made of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Reading {
    /// The box, from 0.
    pub(super) by: usize,
    /// Counted from 0 for each box.
    pub(super) number: u32,
}

impl Reading {
    /// Its key: every reading has one of its own, and so a slot of its own.
    pub(super) fn key(self) -> String {
        format!("reading:{}:{}", name(self.by), self.number)
    }

    /// Its value.
    pub(super) fn value(self) -> String {
        format!("{}", u64::from(self.number) * 7 + self.by as u64)
    }

    /// The slot of its key.
    pub(super) fn slot(self) -> SlotId {
        slot_of(self.key().as_bytes())
    }
}

/// What a box is called, in keys and by CLIENT SETNAME.
pub(super) fn name(number: usize) -> String {
    format!("ingest-{}", number + 1)
}

/// By which map of the fleet a reading was first sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// The map of three nodes, while the fleet had three.
    Before,
    /// The map of three nodes, when the fleet had four.
    Stale,
    /// The map of four nodes.
    After,
}

/// What a node answered to a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// It is written.
    Ok,
    /// Refused: the slot is another node's.
    Moved,
    /// Refused for another reason, and to be tried again.
    NotNow,
}

/// Readings for one node.
pub(super) type Batch = (Arc<Endpoint>, Vec<Reading>);

/// A box.
pub(super) struct IngestBox {
    /// Its number, from 0.
    pub(super) number: usize,
    map: SlotMap,
    next: u32,
    kept: Vec<Reading>,
    /// Every reading it has taken in, in order.
    pub(super) journal: Vec<(Reading, By)>,
    /// Those that a node has acknowledged.
    pub(super) acknowledged: Vec<Reading>,
    /// Writes that were answered with `MOVED`.
    pub(super) moved: u64,
    /// Writes that were refused otherwise.
    pub(super) not_now: u64,
}

impl IngestBox {
    /// A box that goes by this map.
    pub(super) fn new(number: usize, map: SlotMap) -> IngestBox {
        IngestBox {
            number,
            map,
            next: 0,
            kept: Vec::new(),
            journal: Vec::new(),
            acknowledged: Vec::new(),
            moved: 0,
            not_now: 0,
        }
    }

    /// Takes in `count` new readings. Before the growth there are none for the slots that are to
    /// go over: they are handed over empty.
    pub(super) fn take_in(&mut self, count: usize, by: By, plan: &Plan) -> Vec<Reading> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let reading = Reading { by: self.number, number: self.next };
            self.next += 1;
            if by != By::Before || !plan.goes_over(reading.slot()) {
                taken.push(reading);
            }
        }
        self.journal.extend(taken.iter().map(|&reading| (reading, by)));
        taken
    }

    /// Where readings go by this box's map. Those whose owner it does not know are kept.
    pub(super) fn sort(&mut self, readings: &[Reading]) -> Vec<Batch> {
        let mut batches: BTreeMap<Arc<Endpoint>, Vec<Reading>> = BTreeMap::new();
        for &reading in readings {
            match self.map.owner(reading.slot()) {
                Some(owner) => batches.entry(owner.clone()).or_default().push(reading),
                None => self.kept.push(reading),
            }
        }
        batches.into_iter().collect()
    }

    /// Takes what a node answered.
    pub(super) fn answered(&mut self, reading: Reading, answer: &Answer) {
        match answer {
            Answer::Ok => return self.acknowledged.push(reading),
            Answer::Moved => self.moved += 1,
            Answer::NotNow => self.not_now += 1,
        }
        self.kept.push(reading);
    }

    /// Takes a new map, and hands out what was kept to be written by it.
    pub(super) fn learn(&mut self, map: SlotMap) -> Vec<Reading> {
        self.map = map;
        std::mem::take(&mut self.kept)
    }

    /// Has it kept anything?
    pub(super) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<Endpoint> {
        (0..4).map(|at| Endpoint::new("127.0.0.1", 7001 + at)).collect()
    }

    #[test]
    fn readings_before_the_growth_leave_out_the_slots_that_go_over() {
        let plan = Plan::new();
        let mut ingest = IngestBox::new(1, plan.map_before(&nodes()));
        let before = ingest.take_in(2000, By::Before, &plan);
        assert!(before.iter().all(|reading| !plan.goes_over(reading.slot())));
        let after = ingest.take_in(2000, By::Stale, &plan);
        let over = after.iter().filter(|reading| plan.goes_over(reading.slot())).count();
        assert!((400..600).contains(&over), "{over} of 2000 are not a quarter");
        assert!(after[0].number > before[1999].number, "keys are used once");
    }

    #[test]
    fn what_is_refused_is_kept_and_goes_by_the_new_map() {
        let (plan, nodes) = (Plan::new(), nodes());
        let mut ingest = IngestBox::new(LATE, plan.map_before(&nodes));
        let readings = ingest.take_in(400, By::Stale, &plan);
        for (node, batch) in ingest.sort(&readings) {
            assert_ne!(*node, nodes[3], "the old map does not name the newcomer");
            for reading in batch {
                let moved = plan.goes_over(reading.slot());
                ingest.answered(reading, if moved { &Answer::Moved } else { &Answer::Ok });
            }
        }
        assert!(ingest.keeps());
        let kept = ingest.learn(plan.map_after(&nodes));
        assert_eq!(kept.len() as u64, ingest.moved);
        assert_eq!(kept.len() + ingest.acknowledged.len(), 400);
        let batches = ingest.sort(&kept);
        assert_eq!(batches.len(), 1);
        assert_eq!(*batches[0].0, nodes[3]);
        assert!(!ingest.keeps());
    }

    #[test]
    fn a_reading_without_a_known_owner_is_kept() {
        let plan = Plan::new();
        let mut ingest = IngestBox::new(0, SlotMap::default());
        let readings = ingest.take_in(3, By::After, &plan);
        assert_eq!(ingest.sort(&readings), []);
        assert_eq!(ingest.learn(SlotMap::default()), readings);
    }
}
