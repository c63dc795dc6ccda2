//! Stand-ins for the cluster behind a node: orders and proposals that end as a test says.

use std::sync::Arc;

use parking_lot::Mutex;
use slots::{NodeId, TableChange};

use crate::control::orders::{Order, OrderDone, OrderError, Ordered, Orders, PeerView, View};
use crate::control::{CaughtUp, ProposeError, Proposed, TableLog};

/// What becomes of the next orders.
#[derive(Clone, Debug)]
pub enum Ending {
    /// Told at once.
    Told(Result<OrderDone, OrderError>),
    /// Not before `FakeOrders::end`.
    Later,
}

/// Orders that are noted and end as told.
pub struct FakeOrders {
    ending: Mutex<Ending>,
    given: Mutex<Vec<(Order, String)>>,
    waiting: Mutex<Vec<Ordered>>,
    view: Mutex<View>,
}

impl FakeOrders {
    /// Orders that are done at once.
    pub fn new() -> Arc<FakeOrders> {
        let done = OrderDone { changed: true, text: "done as ordered".to_owned() };
        Arc::new(FakeOrders {
            ending: Mutex::new(Ending::Told(Ok(done))),
            given: Mutex::default(),
            waiting: Mutex::default(),
            view: Mutex::default(),
        })
    }

    /// How the next orders end.
    pub fn end_with(&self, ending: Ending) {
        *self.ending.lock() = ending;
    }

    /// The orders so far, with who gave them; none are kept.
    pub fn take(&self) -> Vec<(Order, String)> {
        std::mem::take(&mut *self.given.lock())
    }

    /// Ends all orders that were to end later; returns how many.
    pub fn end(&self, outcome: Result<OrderDone, OrderError>) -> usize {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let count = waiting.len();
        waiting.into_iter().for_each(|done| done(outcome.clone()));
        count
    }

    /// How the cluster looks from now on.
    pub fn look(&self, view: View) {
        *self.view.lock() = view;
    }
}

impl Orders for Arc<FakeOrders> {
    fn order(&self, order: Order, actor: &str, done: Ordered) {
        self.given.lock().push((order, actor.to_owned()));
        let ending = self.ending.lock().clone();
        match ending {
            Ending::Told(outcome) => done(outcome),
            Ending::Later => self.waiting.lock().push(done),
        }
    }

    fn view(&self) -> View {
        self.view.lock().clone()
    }
}

/// A node as last heard, silent for so many ms.
pub fn peer(node: NodeId, connected: bool, silent_ms: Option<u64>) -> PeerView {
    PeerView {
        node,
        connected,
        silent_ns: silent_ms.map(|ms| ms * 1_000_000),
        round_trip_ns: None,
        table_version: Some(7),
        server_version: Some("0.2.0".to_owned()),
        keys: Some(3),
        linked_ns: connected.then_some(60_000_000_000),
        unsent_bytes: if connected { 300 } else { 0 },
    }
}

/// How proposals to a `FakeLog` end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// As the log behind decides.
    Decided,
    /// With this error, and nothing is changed.
    Failed(ProposeError),
    /// The log behind decides, and no word of it comes.
    Silent,
}

/// Something that happens meanwhile.
pub type Happens = Box<dyn FnOnce() + Send>;

/// A log in front of another, whose proposals end as told.
pub struct FakeLog<L> {
    log: L,
    fate: Mutex<Fate>,
    proposed: Mutex<Vec<(TableChange, String)>>,
    late: Mutex<Vec<Happens>>,
    between: Mutex<Vec<Happens>>,
}

impl<L: TableLog> FakeLog<L> {
    /// In front of this log.
    pub fn before(log: L) -> Arc<FakeLog<L>> {
        Arc::new(FakeLog {
            log,
            fate: Mutex::new(Fate::Decided),
            proposed: Mutex::default(),
            late: Mutex::default(),
            between: Mutex::default(),
        })
    }

    /// How the next proposals end.
    pub fn end_with(&self, fate: Fate) {
        *self.fate.lock() = fate;
    }

    /// The proposals so far, with who made them; none are kept.
    pub fn take(&self) -> Vec<(TableChange, String)> {
        std::mem::take(&mut *self.proposed.lock())
    }

    /// What others changed, and this node learns of when it next catches up.
    pub fn is_behind(&self, happens: Happens) {
        self.late.lock().push(happens);
    }

    /// What others change just before the next proposal arrives.
    pub fn comes_between(&self, happens: Happens) {
        self.between.lock().push(happens);
    }
}

fn carry_out(changes: &Mutex<Vec<Happens>>) {
    let changes = std::mem::take(&mut *changes.lock());
    changes.into_iter().for_each(|happens| happens());
}

impl<L: TableLog> TableLog for Arc<FakeLog<L>> {
    fn propose(&self, change: TableChange, actor: &str, done: Proposed) {
        carry_out(&self.between);
        self.proposed.lock().push((change.clone(), actor.to_owned()));
        let fate = self.fate.lock().clone();
        match fate {
            Fate::Decided => self.log.propose(change, actor, done),
            Fate::Failed(error) => done(Err(error)),
            Fate::Silent => self.log.propose(change, actor, Box::new(|_| {})),
        }
    }

    fn catch_up(&self, done: CaughtUp) {
        carry_out(&self.late);
        done(true);
    }
}
