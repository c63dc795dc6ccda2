//! Random cuts, stops, restarts and changes: what was answered stays, and tables never fork.

use super::*;

/// Steps of one run: some twenty leaders come and go in them.
const STEPS: usize = 120;

/// A small generator of numbers: the same seed gives the same run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let end = all.len() as u64;
        (end > 0).then(|| all[self.below(end) as usize])
    }
}

struct Run {
    town: Town,
    dice: Dice,
    stopped: BTreeMap<u8, Member>,
    /// Slots whose assignment was answered.
    answered: BTreeMap<u16, u8>,
    next_slot: u16,
}

impl Run {
    fn running(&self) -> Vec<u8> {
        self.town.members.keys().copied().collect()
    }

    async fn step(&mut self) {
        let running = self.running();
        let Some(node) = self.dice.one_of(&running) else { return self.bring_back().await };
        match self.dice.below(10) {
            0 => self.town.links.isolate(node_id(node)),
            1 => self.town.links.heal(),
            2 if running.len() > 2 => {
                let member = self.town.stop(node).await;
                self.stopped.insert(node, member);
            }
            3 => self.bring_back().await,
            4..=5 => self.town.pass(Duration::from_millis(self.dice.below(3000))).await,
            _ => self.assign(node).await,
        }
    }

    async fn bring_back(&mut self) {
        if let Some((_, member)) = self.stopped.pop_first() {
            self.town.restart(member).await;
        }
    }

    async fn assign(&mut self, at: u8) {
        let slot = self.next_slot;
        self.next_slot += 1;
        let to = 1 + self.dice.below(5) as u8;
        let seen = self.town.table(at).version();
        let change =
            TableChange::AssignSlots { slots: slots(&slot.to_string()), to: node_id(to), seen };
        if let Ok(verdicts) = propose(self.town.cluster(at), change).await {
            assert_eq!(verdicts.all(), Ok(()));
            self.answered.insert(slot, to);
            let table = self.town.table(at);
            assert_eq!(table.owner(slot_id(slot)), Some(node_id(to)), "it has applied it");
        }
    }
}

fn slot_id(slot: u16) -> slots::SlotId {
    slots::SlotId::new(slot).expect("a slot")
}

async fn run(seed: u64) -> usize {
    let town = Town::of(5).await;
    let dice = Dice(seed);
    let (stopped, answered) = (BTreeMap::new(), BTreeMap::new());
    let mut run = Run { town, dice, stopped, answered, next_slot: 0 };
    for _ in 0..STEPS {
        run.step().await;
    }
    run.town.links.heal();
    while !run.stopped.is_empty() {
        run.bring_back().await;
    }
    run.town.until("a leader", |town| town.leader().is_some()).await;
    propose(run.town.cluster(1), label(1, "end")).await.expect("a majority is there");
    run.town.until_equal().await;
    let table = run.town.table(1);
    for (slot, to) in &run.answered {
        assert_eq!(table.owner(slot_id(*slot)), Some(node_id(*to)), "seed {seed}, slot {slot}");
    }
    let view = run.town.view(run.town.leader().expect("a leader"));
    assert_eq!((view.voters.len(), view.learners.len()), (5, 0), "nobody lost its vote");
    run.answered.len()
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_stays_through_cuts_and_restarts() {
    for seed in 1..=4 {
        let answered = run(seed).await;
        assert!(answered > 10, "seed {seed} shows nothing: {answered} changes were answered");
    }
}
