//! Tests of the list family: the scripts beside it, and what scripts cannot say.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use slots::{Epoch, SlotId, slot_of};

use crate::command::mailbox::letter;
use crate::resp::Proto;
use crate::slot::{Admit, End, Key, Op, Ownership, Patience};
use crate::store::limits::Limits;
use crate::store::list::List;
use crate::store::object::Object;
use crate::store::table::Expiry;
use crate::testing::{START_MS, TestNode, encode, run_script};

#[test]
fn items_are_pushed_and_popped_at_the_ends() {
    run_script("list.ends.txt");
}

#[test]
fn several_items_of_the_first_list_there_is() {
    run_script("list.lmpop.txt");
}

#[test]
fn looking_and_working_inside() {
    run_script("list.inside.txt");
}

#[test]
fn searching_for_an_item() {
    run_script("list.lpos.txt");
}

#[test]
fn searching_with_corner_arguments() {
    run_script("list.lpos_corners.txt");
}

#[test]
fn items_move_between_lists() {
    run_script("list.moves.txt");
}

#[test]
fn blocking_commands_that_need_not_wait() {
    run_script("list.blocking_at_once.txt");
}

#[test]
fn waiting_for_an_item() {
    run_script("list.blocking.txt");
}

#[test]
fn waiting_while_types_change() {
    run_script("list.blocking_types.txt");
}

#[test]
fn lists_that_come_and_go_by_other_commands() {
    run_script("list.blocking_keys.txt");
}

#[test]
fn one_push_serves_a_chain() {
    run_script("list.blocking_chains.txt");
}

#[test]
fn the_ways_a_wait_ends() {
    run_script("list.blocking_ends.txt");
}

/// A node of two whose table gives all slots to the other; it serves `slot` all the same.
fn guest_node(slot: SlotId) -> TestNode {
    let node = TestNode::owning("", &[(7002, "0-16383")], &[]);
    node.node.rooms.install(slot, Ownership::Owned, Epoch(50));
    node
}

fn apply(node: &TestNode, slot: SlotId, op: Op<'_>) {
    match node.node.rooms.admit(slot, START_MS, Patience::Block) {
        Admit::Served(mut owned) => owned.apply(op),
        _ => panic!("not served"),
    };
}

fn words(node: &mut TestNode, number: u32, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    String::from_utf8(node.call(number, &words)).expect("text only")
}

fn resumed(node: &mut TestNode, number: u32) -> String {
    String::from_utf8(node.resume(number)).expect("text only")
}

#[test]
fn a_slot_that_leaves_gives_one_moved_and_the_connection_goes_on() {
    let slot = slot_of(b"{k2}l");
    let mut node = guest_node(slot);
    assert_eq!(words(&mut node, 1, "BLPOP {k2}l {k2}m {k2}l 0"), "");
    assert_eq!(words(&mut node, 1, "PING"), "");
    node.node.rooms.install(slot, Ownership::Sealed, Epoch(50));
    assert_eq!(resumed(&mut node, 1), "");
    node.node.rooms.install(slot, Ownership::Foreign, Epoch(51));
    assert_eq!(resumed(&mut node, 1), format!("-MOVED {slot} 127.0.0.1:7002\r\n+PONG\r\n"));
    assert_eq!(node.node.rooms.blocking_keys(), 0);
}

#[test]
fn a_slot_that_leaves_while_its_room_is_held_is_noticed_after_the_unlock() {
    let slot = slot_of(b"l");
    let mut node = guest_node(slot);
    words(&mut node, 1, "BLPOP l 0");
    let rooms = node.node.clone();
    let Admit::Served(held) = rooms.rooms.admit(slot, START_MS, Patience::Spin) else {
        panic!("not served");
    };
    rooms.rooms.install(slot, Ownership::Unassigned, Epoch(51));
    assert_eq!(resumed(&mut node, 1), "");
    drop(held);
    assert_eq!(resumed(&mut node, 1), "-CLUSTERDOWN Hash slot not served\r\n");
}

#[test]
fn time_runs_out_while_the_slot_is_sealed_and_nobody_stays_in_line() {
    let slot = slot_of(b"l");
    let mut node = guest_node(slot);
    words(&mut node, 1, "BLPOP l 1");
    node.node.rooms.install(slot, Ownership::Sealed, Epoch(50));
    node.advance(1000);
    assert_eq!(resumed(&mut node, 1), "*-1\r\n");
    assert_eq!(node.node.rooms.blocking_keys(), 0);
}

#[test]
fn a_list_that_comes_by_another_way_than_a_push_serves_too() {
    let mut node = TestNode::new(&[]);
    let slot = slot_of(b"{t}l");
    words(&mut node, 1, "RPUSH {t}other a b");
    words(&mut node, 2, "BLPOP {t}l 0");
    let (from, to) = (Key::new(b"{t}other"), Key::new(b"{t}l"));
    apply(&node, slot, Op::Rename { from, to });
    assert_eq!(resumed(&mut node, 2), "*2\r\n$4\r\n{t}l\r\n$1\r\na\r\n");
    words(&mut node, 1, "LPOP {t}l");
    words(&mut node, 2, "BRPOP {t}l 0");
    let mut list = List::new();
    list.push_back(b"stored", &Limits::default());
    let object = Box::new(Object::List(list));
    apply(&node, slot, Op::PutObject { key: to, object, expiry: Expiry::Never });
    assert_eq!(resumed(&mut node, 2), "*2\r\n$4\r\n{t}l\r\n$6\r\nstored\r\n");
    assert_eq!(words(&mut node, 1, "LLEN {t}l"), ":0\r\n");
}

#[test]
fn a_list_that_expires_before_the_transaction_ends_serves_nobody() {
    let mut node = TestNode::new(&[]);
    words(&mut node, 2, "BLPOP l 0");
    let rooms = node.node.clone();
    let slot = slot_of(b"l");
    let Admit::Served(mut owned) = rooms.rooms.admit(slot, START_MS, Patience::Spin) else {
        panic!("not served");
    };
    let key = Key::new(b"l");
    owned.apply(Op::ListPush { key, end: End::Back, items: &[b"x"] });
    owned.apply(Op::SetExpiry { key, at: Some(START_MS + 100) });
    owned.note_time(START_MS + 100);
    drop(owned);
    node.advance(100);
    assert_eq!(resumed(&mut node, 2), "");
    assert_eq!(words(&mut node, 1, "LLEN l"), ":0\r\n");
}

#[test]
fn a_list_keeps_its_expiry_while_its_only_item_goes_round() {
    let mut node = TestNode::new(&[]);
    words(&mut node, 1, "RPUSH l x");
    let at = Some(START_MS + 100);
    apply(&node, slot_of(b"l"), Op::SetExpiry { key: Key::new(b"l"), at });
    words(&mut node, 1, "RPOPLPUSH l l");
    node.advance(100);
    assert_eq!(words(&mut node, 1, "LLEN l"), ":0\r\n");
}

#[test]
fn resp3_has_one_null() {
    let mut node = TestNode::new(&[]);
    node.set_proto(1, Proto::Resp3);
    for line in ["LPOP l", "LPOP l 0", "LMPOP 1 l LEFT", "LINDEX l 0", "LPOS l x"] {
        assert_eq!(words(&mut node, 1, line), "_\r\n", "{line}");
    }
    for line in ["BLPOP l 1", "BLMPOP 1 1 l LEFT", "BLMOVE l l LEFT LEFT 1", "BRPOPLPUSH l l 1"] {
        assert_eq!(words(&mut node, 1, line), "", "{line}");
        node.advance(1000);
        assert_eq!(resumed(&mut node, 1), "_\r\n", "{line}");
    }
}

#[test]
fn commands_that_change_nothing_leave_watches_alone() {
    let mut node = TestNode::new(&[]);
    words(&mut node, 1, "RPUSH {t}l a b");
    words(&mut node, 2, "WATCH {t}l {t}none");
    for line in [
        "LPUSHX {t}none x",
        "LPOP {t}none",
        "LPOP {t}l 0",
        "LTRIM {t}l 0 -1",
        "LREM {t}l 0 x",
        "LINSERT {t}l BEFORE x y",
        "LMOVE {t}none {t}l LEFT LEFT",
        "LMPOP 1 {t}none LEFT",
        "LSET {t}l 9 x",
    ] {
        words(&mut node, 1, line);
    }
    words(&mut node, 2, "MULTI");
    assert_eq!(words(&mut node, 2, "EXEC"), "*0\r\n");
}

/// What a random client does.
#[derive(Clone, Debug)]
enum Deed {
    Push(usize, usize, bool),
    Transaction(usize, usize),
    Pop(usize),
    Block(u32, usize, usize),
    Move(u32, usize, usize),
    Many(u32, usize, usize),
    Resume(u32),
    Advance,
    Unblock(u32),
    Close(u32),
    SetString(usize),
    Delete(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let (key, client) = (0_usize..4, 2_u32..8);
    prop_oneof![
        6 => (key.clone(), 1_usize..4, any::<bool>()).prop_map(|(k, n, f)| Deed::Push(k, n, f)),
        2 => (key.clone(), key.clone()).prop_map(|(a, b)| Deed::Transaction(a, b)),
        1 => key.clone().prop_map(Deed::Pop),
        4 => (client.clone(), key.clone(), key.clone()).prop_map(|(c, a, b)| Deed::Block(c, a, b)),
        3 => (client.clone(), key.clone(), key.clone()).prop_map(|(c, a, b)| Deed::Move(c, a, b)),
        2 => (client.clone(), key.clone(), key.clone()).prop_map(|(c, a, b)| Deed::Many(c, a, b)),
        4 => client.clone().prop_map(Deed::Resume),
        1 => Just(Deed::Advance),
        1 => client.clone().prop_map(Deed::Unblock),
        1 => client.prop_map(Deed::Close),
        1 => key.clone().prop_map(Deed::SetString),
        1 => key.prop_map(Deed::Delete),
    ]
}

/// Items are numbered `<n>`; whoever sees one in a reply has it.
struct World {
    node: TestNode,
    pushed: usize,
    /// Items in replies, by number, and those that deletions took.
    seen: Vec<usize>,
    blocked: BTreeMap<u32, Vec<usize>>,
}

const TAG: &[u8] = b"{w}0";

impl World {
    fn key(at: usize) -> String {
        format!("{{w}}{at}")
    }

    fn items(&mut self, count: usize) -> String {
        let items = (self.pushed..self.pushed + count).map(|n| format!(" <{n}>"));
        self.pushed += count;
        items.collect()
    }

    fn take(&mut self, reply: &str) {
        let numbers = reply.split(['<', '>']).filter_map(|part| part.parse::<usize>().ok());
        self.seen.extend(numbers);
    }

    /// What lies in the lists; also checks that nobody waits for a key that holds one.
    fn lying(&self) -> Vec<usize> {
        let slot = slot_of(TAG);
        let Admit::Served(owned) = self.node.node.rooms.admit(slot, START_MS, Patience::Spin)
        else {
            panic!("not served");
        };
        let mut lying: Vec<usize> = Vec::new();
        for at in 0..4 {
            let key = World::key(at);
            let Ok(Some(list)) = owned.keys().list(Key::new(key.as_bytes())) else { continue };
            for (client, keys) in &self.blocked {
                let letters = self.node.is_served(*client);
                assert!(!keys.contains(&at) || letters, "{client} waits for {key}, a list");
            }
            let number =
                |item: &[u8]| String::from_utf8_lossy(&item[1..item.len() - 1]).parse::<usize>();
            lying.extend(list.iter().map(|item| number(item).expect("a number")));
        }
        lying
    }

    fn block(&mut self, client: u32, keys: &[usize], line: &str) {
        if self.blocked.contains_key(&client) {
            return;
        }
        let reply = words(&mut self.node, client, line);
        if reply.is_empty() {
            self.blocked.insert(client, keys.to_vec());
        } else {
            self.take_move(&reply, line);
        }
    }

    /// A moved item is shown but still there.
    fn take_move(&mut self, reply: &str, line: &str) {
        if !line.starts_with("BLMOVE") {
            self.take(reply);
        }
    }

    fn look(&mut self, client: u32) {
        if self.blocked.contains_key(&client) {
            let reply = resumed(&mut self.node, client);
            if !reply.is_empty() {
                self.blocked.remove(&client);
                // A bare item is what BLMOVE answers.
                if reply.starts_with('*') {
                    self.take(&reply);
                }
            }
        }
    }

    /// What an op takes away counts as seen.
    fn remove(&mut self, op: impl FnOnce(&TestNode)) {
        let before = self.lying();
        op(&self.node);
        let after = self.lying();
        self.seen.extend(before.into_iter().filter(|item| !after.contains(item)));
    }

    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Push(at, count, front) => {
                let items = self.items(count);
                let verb = if front { "LPUSH" } else { "RPUSH" };
                let reply = words(&mut self.node, 1, &format!("{verb} {}{items}", World::key(at)));
                if reply.starts_with('-') {
                    self.seen.extend(self.pushed - count..self.pushed);
                }
            }
            Deed::Transaction(a, b) => {
                words(&mut self.node, 1, "MULTI");
                let items = [self.items(2), self.items(1)];
                for (at, items) in [a, b].into_iter().zip(&items) {
                    words(&mut self.node, 1, &format!("RPUSH {}{items}", World::key(at)));
                }
                let reply = words(&mut self.node, 1, "EXEC");
                let failed: Vec<bool> =
                    reply.split("\r\n").skip(1).map(|line| line.starts_with('-')).collect();
                let first = self.pushed - 3;
                if failed[0] {
                    self.seen.extend([first, first + 1]);
                }
                if failed[1] {
                    self.seen.push(first + 2);
                }
            }
            Deed::Pop(at) => {
                let reply = words(&mut self.node, 1, &format!("LPOP {}", World::key(at)));
                self.take(&reply);
            }
            Deed::Block(client, a, b) => {
                let line = format!("BLPOP {} {} 1", World::key(a), World::key(b));
                self.block(client, &[a, b], &line);
            }
            Deed::Move(client, a, b) => {
                let line = format!("BLMOVE {} {} LEFT RIGHT 1", World::key(a), World::key(b));
                self.block(client, &[a], &line);
            }
            Deed::Many(client, a, b) => {
                let (a_key, b_key) = (World::key(a), World::key(b));
                let line = format!("BLMPOP 0 2 {a_key} {b_key} RIGHT COUNT 2");
                self.block(client, &[a, b], &line);
            }
            Deed::Resume(client) => self.look(client),
            Deed::Advance => self.node.advance(600),
            Deed::Unblock(client) => {
                self.node.shared(client).mailbox.post(letter::UNBLOCK_ERROR);
                self.look(client);
            }
            Deed::Close(client) => {
                // Looks first, so that nothing is on its way to a closed connection.
                self.look(client);
                self.blocked.remove(&client);
                self.node.close(client);
            }
            Deed::SetString(at) => self.remove(|node| {
                let key = World::key(at);
                let key = Key::new(key.as_bytes());
                let op = Op::SetString { key, value: b"text", expiry: Expiry::Never };
                apply(node, slot_of(TAG), op);
            }),
            Deed::Delete(at) => self.remove(|node| {
                let key = World::key(at);
                apply(node, slot_of(TAG), Op::Delete { key: Key::new(key.as_bytes()) });
            }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_or_doubled_and_nobody_waits_for_what_is_there(
        deeds in prop::collection::vec(deed(), 1..120)
    ) {
        let node = TestNode::new(&[]);
        let mut world =
            World { node, pushed: 0, seen: Vec::new(), blocked: BTreeMap::new() };
        for deed in deeds {
            world.act(deed);
            world.lying();
        }
        for client in 2..8 {
            world.look(client);
        }
        let mut found = world.lying();
        found.extend(&world.seen);
        found.sort_unstable();
        prop_assert_eq!(found, (0..world.pushed).collect::<Vec<_>>());
        for client in 2..8 {
            world.node.close(client);
        }
        prop_assert_eq!(world.node.node.rooms.blocking_keys(), 0);
    }
}

/// One pusher and one client whose time is always just running out: each item is either answered
/// or still there, and each wait has one answer.
#[test]
fn a_push_and_a_time_out_at_the_same_moment_have_one_winner() {
    const ROUNDS: usize = 20_000;
    let mut test = TestNode::new(&[]);
    let mut waiting = test.lend(1);
    let node = test.node.clone();
    let (slot, key) = (slot_of(b"l"), Key::new(b"l"));
    let pusher = {
        let node = node.clone();
        move |stop: &AtomicBool| {
            let mut pushed = 0;
            while !stop.load(Ordering::Relaxed) {
                if let Admit::Served(mut owned) = node.rooms.admit(slot, START_MS, Patience::Block)
                    && owned.keys().is_empty()
                {
                    owned.apply(Op::ListPush { key, end: End::Back, items: &[b"x"] });
                    pushed += 1;
                }
            }
            pushed
        }
    };
    let stop = AtomicBool::new(false);
    let (pushed, popped, expired) = std::thread::scope(|scope| {
        let pusher = scope.spawn(|| pusher(&stop));
        let (mut popped, mut expired) = (0, 0);
        for _ in 0..ROUNDS {
            let mut reply = waiting.send(&encode(&[b"BLPOP", b"l", b"0.000000001"]));
            while reply.is_empty() {
                reply = waiting.resume_late();
            }
            match &reply[..] {
                b"*2\r\n$1\r\nl\r\n$1\r\nx\r\n" => popped += 1,
                b"*-1\r\n" => expired += 1,
                other => panic!("{}", other.escape_ascii()),
            }
        }
        stop.store(true, Ordering::Relaxed);
        (pusher.join().expect("it ends"), popped, expired)
    });
    let Admit::Served(owned) = node.rooms.admit(slot, START_MS, Patience::Block) else {
        panic!("not served");
    };
    assert_eq!(popped + owned.keys().len(), pushed);
    assert_eq!(popped + expired, ROUNDS);
    drop(owned);
    assert_eq!(node.rooms.blocking_keys(), 0);
}
