//! Who waits in a room: clients blocked on keys, and transactions that watch keys.
//!
//! A blocked client is served under the lock hold that made its key ready, in the order of
//! arrival, before anyone else can take the element (Redis's fairness). Serving runs the
//! client's own command; what it pushes may make further keys ready.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::slot::Owned;
use crate::slot::admission::Refused;

/// What came of an attempt to serve a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It has its reply and is gone; `settle` is called when the group is closed.
    Done,
    /// Its command would still block; it keeps its place.
    StillWaiting,
    /// It had been served, timed out or closed before; drop it.
    Gone,
}

/// A place in line: rising in the order of arrival, never given twice on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// A blocked client, as the room sees it. Implemented by the session.
pub trait Waiting: Send + Sync {
    /// Its place in line.
    fn ticket(&self) -> Ticket;
    /// The keys it waits on, all of this slot; the same one may be there twice.
    fn keys(&self) -> &[Box<[u8]>];
    /// `ready` received data: runs the command on it under the lock and delivers the reply, if
    /// that did not block.
    fn serve(&self, ready: &[u8], owned: &mut Owned<'_>) -> Served;
    /// The group in which it was served is closed, and its place in the log known: the client may
    /// be told. Under the same lock hold.
    fn settle(&self, owned: &Owned<'_>);
    /// The slot is not this node's any more: delivers exactly one refusal.
    fn refuse(&self, refused: Refused);
}

/// A transaction's watch: set when a watched key changed.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<AtomicBool>);

impl Watch {
    /// A clean watch.
    pub fn new() -> Watch {
        Watch::default()
    }

    /// A watched key changed.
    pub fn touch(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Has any watched key changed?
    pub fn is_touched(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn same(&self, other: &Watch) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The people in a room's hall. Boxed beside the room, absent in most rooms.
#[derive(Default)]
pub(crate) struct Hall {
    blocked: HashMap<Box<[u8]>, Line>,
    watched: HashMap<Box<[u8]>, Vec<Watch>>,
    /// Keys whose lines are marked ready, in the order in which they received data.
    ready: VecDeque<Box<[u8]>>,
}

/// Those who wait for one key, oldest first. Leaving from the middle is cheap: time-outs do.
#[derive(Default)]
struct Line {
    waiters: BTreeMap<Ticket, Arc<dyn Waiting>>,
    ready: bool,
}

impl Hall {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocked.is_empty() && self.watched.is_empty()
    }

    pub(crate) fn block(&mut self, waiter: Arc<dyn Waiting>) {
        for key in waiter.keys() {
            let line = self.blocked.entry(key.clone()).or_default();
            line.waiters.insert(waiter.ticket(), waiter.clone());
        }
    }

    pub(crate) fn unblock(&mut self, waiter: &dyn Waiting) {
        for key in waiter.keys() {
            if let Some(line) = self.blocked.get_mut(key) {
                line.waiters.remove(&waiter.ticket());
                if line.waiters.is_empty() {
                    self.blocked.remove(key);
                }
            }
        }
    }

    pub(crate) fn watch(&mut self, key: &[u8], watch: &Watch) {
        let list = self.watched.entry(key.into()).or_default();
        if !list.iter().any(|w| w.same(watch)) {
            list.push(watch.clone());
        }
    }

    pub(crate) fn unwatch(&mut self, key: &[u8], watch: &Watch) {
        if let Some(list) = self.watched.get_mut(key) {
            list.retain(|w| !w.same(watch));
            if list.is_empty() {
                self.watched.remove(key);
            }
        }
    }

    /// A key changed: its watchers' transactions will fail, its waiters may be served.
    pub(crate) fn changed(&mut self, key: &[u8]) {
        if let Some(list) = self.watched.get(key) {
            list.iter().for_each(Watch::touch);
        }
        if let Some(line) = self.blocked.get_mut(key)
            && !line.ready
        {
            line.ready = true;
            self.ready.push_back(key.into());
        }
    }

    /// Every key may have changed (the slot was flushed or left).
    pub(crate) fn touch_all(&mut self) {
        self.watched.values().flatten().for_each(Watch::touch);
    }

    /// Touches the watchers of those watched keys for which `changes` holds.
    pub(crate) fn touch_where(&mut self, mut changes: impl FnMut(&[u8]) -> bool) {
        for (key, list) in &self.watched {
            if changes(key) {
                list.iter().for_each(Watch::touch);
            }
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next key to serve; it may become ready again meanwhile.
    pub(crate) fn next_ready(&mut self) -> Option<Box<[u8]>> {
        let key = self.ready.pop_front()?;
        if let Some(line) = self.blocked.get_mut(&key) {
            line.ready = false;
        }
        Some(key)
    }

    /// The oldest waiter of a key that came after `last`.
    pub(crate) fn next_waiter(&self, key: &[u8], last: Option<Ticket>) -> Option<Arc<dyn Waiting>> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.blocked.get(key)?.waiters.range((from, Bound::Unbounded));
        later.next().map(|(_, waiter)| waiter.clone())
    }

    /// Keys somebody is blocked on.
    pub(crate) fn blocking_keys(&self) -> usize {
        self.blocked.len()
    }

    /// Refuses and forgets all waiters, each once, oldest first; watches are touched.
    pub(crate) fn evict(&mut self, refused: Refused) {
        self.touch_all();
        self.ready.clear();
        let lines = self.blocked.drain().map(|(_, line)| line.waiters);
        let waiters: BTreeMap<_, _> = lines.flatten().collect();
        waiters.values().for_each(|waiter| waiter.refuse(refused));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use parking_lot::Mutex;
    use slots::{Epoch, SlotId};

    use super::*;
    use crate::slot::room::Chores;
    use crate::slot::{Admit, End, Key, Op, Ownership, Patience, Rooms};
    use crate::store::object::Object;
    use crate::store::table::Table;

    struct NoChores;

    impl Chores for NoChores {
        fn expiry_due(&self, _: SlotId, _: u64) {}
        fn free(&self, _: Box<Object>) {}
        fn free_table(&self, _: Table<Object>) {}
    }

    /// Pops one item if it is its turn to; counts how often it was asked.
    struct Popper {
        ticket: Ticket,
        keys: Vec<Box<[u8]>>,
        picky: bool,
        asked: AtomicUsize,
        served: Mutex<Option<Vec<u8>>>,
        refused: AtomicUsize,
    }

    impl Waiting for Popper {
        fn ticket(&self) -> Ticket {
            self.ticket
        }
        fn keys(&self) -> &[Box<[u8]>] {
            &self.keys
        }
        fn serve(&self, ready: &[u8], owned: &mut Owned<'_>) -> Served {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.picky {
                return Served::StillWaiting;
            }
            owned.apply(Op::ListPop { key: Key::new(ready), end: End::Front, count: 1 });
            *self.served.lock() = Some(ready.to_vec());
            Served::Done
        }
        fn settle(&self, _: &Owned<'_>) {}
        fn refuse(&self, _: Refused) {
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn rooms() -> Rooms {
        let rooms = Rooms::new(Box::new(NoChores));
        rooms.install(SlotId::FIRST, Ownership::Owned, Epoch(1));
        rooms
    }

    fn enter(rooms: &Rooms) -> Owned<'_> {
        match rooms.admit(SlotId::FIRST, 1, Patience::Block) {
            Admit::Served(owned) => owned,
            _ => panic!("not served"),
        }
    }

    fn line_up(rooms: &Rooms, keys: &[&[u8]], picky: bool) -> Arc<Popper> {
        let mut owned = enter(rooms);
        let popper = Arc::new(Popper {
            ticket: owned.take_ticket(),
            keys: keys.iter().map(|key| (*key).into()).collect(),
            picky,
            asked: AtomicUsize::new(0),
            served: Mutex::new(None),
            refused: AtomicUsize::new(0),
        });
        owned.block(popper.clone());
        popper
    }

    fn push(owned: &mut Owned<'_>, key: &[u8], items: &[&[u8]]) {
        owned.apply(Op::ListPush { key: Key::new(key), end: End::Back, items });
    }

    #[test]
    fn one_item_bothers_one_of_many_who_wait() {
        let rooms = rooms();
        let line: Vec<_> = (0..100).map(|_| line_up(&rooms, &[b"k"], false)).collect();
        push(&mut enter(&rooms), b"k", &[b"x"]);
        let asked: usize = line.iter().map(|p| p.asked.load(Ordering::SeqCst)).sum();
        assert_eq!(asked, 1);
        assert!(line[0].served.lock().is_some());
    }

    #[test]
    fn who_cannot_use_the_value_keeps_the_place_and_lets_others_pass() {
        let rooms = rooms();
        let picky = line_up(&rooms, &[b"k"], true);
        let other = line_up(&rooms, &[b"k"], false);
        push(&mut enter(&rooms), b"k", &[b"x"]);
        assert!(other.served.lock().is_some());
        push(&mut enter(&rooms), b"k", &[b"y"]);
        assert_eq!(picky.asked.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn keys_are_served_in_the_order_in_which_they_received_data() {
        let rooms = rooms();
        let both = line_up(&rooms, &[b"a", b"b", b"a"], false);
        let mut owned = enter(&rooms);
        push(&mut owned, b"b", &[b"x"]);
        push(&mut owned, b"a", &[b"y"]);
        drop(owned);
        assert_eq!(both.served.lock().as_deref(), Some(&b"b"[..]));
        assert_eq!(both.asked.load(Ordering::SeqCst), 1);
        assert_eq!(rooms.blocking_keys(), 0);
    }

    #[test]
    fn a_waiter_of_many_keys_is_refused_once() {
        let rooms = rooms();
        let popper = line_up(&rooms, &[b"a", b"b", b"a"], false);
        rooms.install(SlotId::FIRST, Ownership::Foreign, Epoch(2));
        assert_eq!(popper.refused.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn who_leaves_takes_nobody_along() {
        let rooms = rooms();
        let (first, second) = (line_up(&rooms, &[b"a"], false), line_up(&rooms, &[b"a"], false));
        assert!(rooms.leave_line(SlotId::FIRST, &*first, Patience::Spin));
        push(&mut enter(&rooms), b"a", &[b"x"]);
        assert!(first.served.lock().is_none() && second.served.lock().is_some());
    }
}
