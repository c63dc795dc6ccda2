//! Nodes with real sockets on the loopback: links, calls, refusals, restarts.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::TcpStream as StdStream;
use std::task::Poll;

use slots::{
    Addresses, Boot, ClusterSettings, Kept, Labels, NewNode, Nonce, Proposal, Proposer, SlotRanges,
    StoreId, TableChange, TableVersion,
};

use super::*;
use crate::peer::greeting::{Hello, PROTOCOL_VERSIONS, Side};
use crate::peer::judge::Standing;
use crate::peer::link::{Event, Link, Terms};
use crate::peer::{MAX_QUEUED_CALL_BYTES, Notice, RefusalCode};

const PATIENCE: Duration = Duration::from_secs(10);

/// `RaftAppend` comes back reversed, `Order` is refused, `Meet` says who asks, `Propose` waits for
/// ever.
struct Echo;

impl Answers for Echo {
    fn answer(
        &self,
        from: NodeId,
        kind: CallKind,
        mut body: Vec<u8>,
    ) -> Boxed<Result<Vec<u8>, String>> {
        Box::pin(async move {
            match kind {
                CallKind::Order => return Err("not the leader".to_owned()),
                CallKind::Meet => return Ok(from.to_string().into_bytes()),
                CallKind::Propose => std::future::pending().await,
                _ => body.reverse(),
            }
            Ok(body)
        })
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<Notice>>);

impl Notices for Heard {
    fn notice(&self, notice: Notice) {
        self.0.lock().push(notice);
    }
}

impl Heard {
    fn any(&self, like: impl Fn(&Notice) -> bool) -> bool {
        self.0.lock().iter().any(like)
    }

    fn refused(&self) -> Option<RefusalCode> {
        self.0.lock().iter().find_map(|notice| match notice {
            Notice::RefusedBy { code, .. } => Some(*code),
            _ => None,
        })
    }
}

struct Node {
    net: Arc<PeerNet>,
    heard: Arc<Heard>,
}

impl Node {
    fn start(n: u8, change: impl FnOnce(&mut PeerConfig)) -> Node {
        let mut config = PeerConfig {
            identity: identity(n, 1),
            cluster: Some(CLUSTER),
            generation: 1,
            secret: Secret::new(b"secret"),
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            bus: Endpoint::new("127.0.0.1", 0),
            client: Endpoint::new("127.0.0.1", 7000 + u16::from(n)),
            name: format!("node-{n}"),
            server_version: "0.1.0".to_owned(),
            seeds: Vec::new(),
            book: String::new(),
        };
        change(&mut config);
        let heard = Arc::new(Heard::default());
        let net = PeerNet::start(config, Arc::new(Echo), heard.clone()).expect("it listens");
        Node { net, heard }
    }

    fn port(&self) -> u16 {
        self.net.addresses()[0].port()
    }

    fn at(&self) -> Endpoint {
        Endpoint::new("127.0.0.1", self.port())
    }

    fn is_linked(&self, n: u8) -> bool {
        self.net.views().iter().any(|view| view.node == id(n) && view.connected)
    }

    async fn call(&self, n: u8, kind: CallKind, body: &[u8]) -> Result<Vec<u8>, CallError> {
        self.net.call(id(n), kind, body.to_vec(), PATIENCE).await
    }

    fn links(&self) -> Vec<Arc<Handle>> {
        self.net.inner.state.lock().handles()
    }
}

const CLUSTER: ClusterId = ClusterId::from_bytes([9; 20]);

fn id(n: u8) -> NodeId {
    NodeId::from_bytes([n; 20])
}

fn identity(n: u8, boot: u64) -> Identity {
    let (store, nonce) = (StoreId::from_bytes([n; 16]), Nonce::from_bytes([boot as u8; 8]));
    Identity { node: id(n), store, boot: Boot(boot), nonce }
}

/// A table of nodes at these ports; each has started once.
fn table(nodes: &[(u8, u16)]) -> SlotTable {
    let mut table = SlotTable::new();
    apply(&mut table, 1, TableChange::InitCluster { settings: ClusterSettings::default() });
    for (n, port) in nodes {
        let node = NewNode {
            id: id(*n),
            name: format!("node-{n}"),
            store: StoreId::from_bytes([*n; 16]),
            addresses: Addresses {
                client: Endpoint::new("127.0.0.1", 7000 + u16::from(*n)),
                bus: Endpoint::new("127.0.0.1", *port),
                hostname: None,
            },
            labels: Labels::new(),
            weight: slots::DEFAULT_WEIGHT,
        };
        apply(&mut table, *n, TableChange::AddNode { node });
        boot(&mut table, *n, 1);
    }
    table
}

fn boot(table: &mut SlotTable, n: u8, boot: u64) {
    let change = TableChange::NodeBoot {
        node: id(n),
        boot: Boot(boot),
        nonce: identity(n, boot).nonce,
        kept: Kept::All,
        alone: Default::default(),
        except: SlotRanges::new(),
    };
    apply(table, n, change);
}

fn apply(table: &mut SlotTable, by: u8, change: TableChange) {
    let version = TableVersion(table.version().0 + 1);
    let boot = match &change {
        TableChange::NodeBoot { boot, .. } => *boot,
        _ => table.node(id(by)).map_or(Boot(1), |row| row.boot),
    };
    let by = Proposer { node: id(by), boot };
    let verdicts = table.apply(&Proposal { cluster: CLUSTER, by, change }, version);
    assert_eq!(verdicts.all(), Ok(()));
}

fn since(began_ns: u64) -> Duration {
    Duration::from_nanos(clock::now().mono_ns - began_ns)
}

/// Waits for a condition.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let began_ns = clock::now().mono_ns;
    while !condition() {
        assert!(since(began_ns) < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().expect("a runtime").block_on(test);
}

/// Nodes 1, 2... that share a table, all linked.
async fn cluster(count: u8) -> (Vec<Node>, SlotTable) {
    let nodes: Vec<Node> = (1..=count).map(|n| Node::start(n, |_| {})).collect();
    let at: Vec<(u8, u16)> = (1..=count).zip(nodes.iter().map(Node::port)).collect();
    let table = table(&at);
    let shared = Arc::new(table.clone());
    nodes.iter().for_each(|node| node.net.update_table(&shared));
    for (me, node) in (1..=count).zip(&nodes) {
        for other in (1..=count).filter(|other| *other != me) {
            until("all are linked", || node.is_linked(other)).await;
        }
    }
    (nodes, table)
}

#[test]
fn two_that_dial_each_other_at_once_end_with_one_link() {
    run(async {
        for _ in 0..20 {
            let (nodes, _) = cluster(2).await;
            let (a, b) = (&nodes[0], &nodes[1]);
            // No head start here: whatever the first links were, both dial again at once.
            for node in [a, b] {
                node.links().iter().for_each(|link| link.drop_it("cut by the test"));
                node.net.learn(&[]);
                let other = if node.port() == a.port() { b } else { a };
                let n = if node.port() == a.port() { 2 } else { 1 };
                let mut state = node.net.inner.state.lock();
                state.learn(&[(id(n), other.at())], clock::now().mono_ns);
            }
            until("one link on each side, and it is the same one", || {
                let (left, right) = (a.links(), b.links());
                let (Some(left), Some(right), true) =
                    (left.first(), right.first(), left.len() == 1 && right.len() == 1)
                else {
                    return false;
                };
                let is_listening = |link: &Handle, node: &Node| link.remote.port() == node.port();
                a.is_linked(2) && b.is_linked(1) && is_listening(left, b) != is_listening(right, a)
            })
            .await;
            assert_eq!(a.call(2, CallKind::RaftAppend, b"ab").await, Ok(b"ba".to_vec()));
        }
    });
}

#[test]
fn whoever_can_reach_the_other_makes_the_link() {
    run(async {
        for (hidden, open) in [(1, 2), (2, 1)] {
            let open_node = Node::start(open, |_| {});
            let hidden_node = Node::start(hidden, |config| config.listen.clear());
            let shared = Arc::new(table(&[(hidden, 1), (open, open_node.port())]));
            open_node.net.update_table(&shared);
            hidden_node.net.update_table(&shared);
            until("linked", || open_node.is_linked(hidden) && hidden_node.is_linked(open)).await;
            let answer = open_node.call(hidden, CallKind::RaftAppend, b"ab").await;
            assert_eq!(answer, Ok(b"ba".to_vec()));
        }
    });
}

#[test]
fn calls_are_answered_refused_or_given_up() {
    run(async {
        let (nodes, _) = cluster(3).await;
        let big: Vec<u8> = (0..1 << 20).map(|at| (at % 253) as u8).collect();
        let calls = (0..8).map(|_| nodes[0].call(2, CallKind::RaftSnapshot, &big));
        let mut reversed = big.clone();
        reversed.reverse();
        for call in calls {
            assert!(call.await.is_ok_and(|answer| answer == reversed));
        }
        let refused = nodes[1].call(3, CallKind::Order, b"x").await;
        assert_eq!(refused, Err(CallError::Refused("not the leader".to_owned())));
        assert_eq!(nodes[1].call(9, CallKind::Order, b"x").await, Err(CallError::NotConnected));
        let patience = Duration::from_millis(50);
        let began_ns = clock::now().mono_ns;
        let given_up = nodes[2].net.call(id(1), CallKind::Propose, b"x".to_vec(), patience).await;
        assert_eq!(given_up, Err(CallError::NoAnswer));
        assert!(since(began_ns) >= patience && since(began_ns) < PATIENCE / 2);
    });
}

#[test]
fn pings_tell_each_nodes_status() {
    run(async {
        let (nodes, table) = cluster(2).await;
        let table_version = table.version().0;
        nodes[1].net.set_status(PeerStatus { table_version, keys: 42, uptime_ms: 7 });
        until("the status is heard", || {
            nodes[0].net.views().iter().any(|view| {
                view.node == id(2)
                    && view.keys == Some(42)
                    && view.table_version == Some(table_version)
                    && view.round_trip_ns.is_some()
                    && view.silent_ns.is_some_and(|ns| ns < 1_000_000_000)
                    && view.server_version.as_deref() == Some("0.1.0")
            })
        })
        .await;
        nodes[1].net.stop();
        until("the link is gone, and what was heard is kept", || {
            nodes[0].net.views().iter().any(|view| !view.connected && view.keys == Some(42))
        })
        .await;
    });
}

#[test]
fn a_wrong_secret_is_told_to_who_asks() {
    run(async {
        let right = Node::start(1, |_| {});
        let shared = Arc::new(table(&[(1, right.port()), (2, 1)]));
        right.net.update_table(&shared);
        for secret in ["wrong", ""] {
            let wrong = Node::start(2, |config| config.secret = Secret::new(secret.as_bytes()));
            wrong.net.update_table(&shared);
            let met = wrong.net.call_stranger(right.at(), CallKind::Meet, Vec::new(), PATIENCE);
            match met.await {
                Err(CallError::Refused(text)) => assert!(text.contains("cluster-secret"), "{text}"),
                other => panic!("{other:?}"),
            }
            assert!(!right.is_linked(2) && !wrong.is_linked(1));
        }
    });
}

#[test]
fn the_second_of_two_copies_and_an_old_copy_are_refused() {
    run(async {
        let hub = Node::start(1, |_| {});
        let mut agreed = table(&[(1, hub.port()), (2, 1)]);
        boot(&mut agreed, 2, 2);
        let shared = Arc::new(agreed.clone());
        hub.net.update_table(&shared);
        let seeds = vec![hub.at()];
        let node = |boot, nonce: u8| {
            let node = Node::start(2, |config| {
                config.identity = identity(2, boot);
                config.identity.nonce = Nonce::from_bytes([nonce; 8]);
                config.seeds = seeds.clone();
            });
            node.net.update_table(&shared);
            node
        };
        let first = node(3, 3);
        until("the first is linked", || hub.is_linked(2) && first.is_linked(1)).await;
        let second = node(3, 77);
        until("the copy is refused", || second.heard.refused().is_some()).await;
        assert_eq!(second.heard.refused(), Some(RefusalCode::Doubled));
        let old = node(2, 2);
        until("the old start is refused", || old.heard.refused().is_some()).await;
        assert_eq!(old.heard.refused(), Some(RefusalCode::Outdated));
        assert!(hub.is_linked(2) && first.is_linked(1));
        // A newer start is let in, and the older one's link is closed for it.
        let newer = node(4, 4);
        until("the newer start is linked", || newer.is_linked(1)).await;
        until("the first is refused now", || first.heard.refused().is_some()).await;
        assert_eq!(first.heard.refused(), Some(RefusalCode::Outdated));
        assert_eq!(hub.call(2, CallKind::RaftAppend, b"ab").await, Ok(b"ba".to_vec()));
        // And so is the link of a start that the table makes old.
        boot(&mut agreed, 2, 5);
        hub.net.update_table(&Arc::new(agreed));
        until("refused by the table", || newer.heard.refused().is_some()).await;
        assert_eq!(newer.heard.refused(), Some(RefusalCode::Outdated));
    });
}

#[test]
fn a_removed_node_loses_its_links_and_is_told() {
    run(async {
        let (nodes, mut agreed) = cluster(3).await;
        apply(&mut agreed, 1, TableChange::RemoveNode { node: id(3) });
        let shared = Arc::new(agreed);
        nodes[0].net.update_table(&shared);
        nodes[1].net.update_table(&shared);
        until("removed", || nodes[2].heard.refused() == Some(RefusalCode::Removed)).await;
        until("no link", || !nodes[0].is_linked(3) && !nodes[1].is_linked(3)).await;
        assert!(
            nodes[0].heard.any(|n| matches!(n, Notice::LinkDown { node, .. } if *node == id(3)))
        );
        assert!(nodes[0].is_linked(2));
    });
}

#[test]
fn a_stranger_may_meet_and_nothing_else_then_joins() {
    run(async {
        let (nodes, _) = cluster(2).await;
        let stranger = Node::start(3, |config| config.cluster = None);
        let to = nodes[0].at();
        let meet = |kind| stranger.net.call_stranger(to.clone(), kind, Vec::new(), PATIENCE);
        assert_eq!(meet(CallKind::Meet).await, Ok(id(3).to_string().into_bytes()));
        assert!(matches!(meet(CallKind::Propose).await, Err(CallError::Refused(_))));
        assert!(!nodes[0].is_linked(3));
        let nobody = Endpoint::new("127.0.0.1", 1);
        let meet = stranger.net.call_stranger(nobody, CallKind::Meet, Vec::new(), PATIENCE);
        assert_eq!(meet.await, Err(CallError::NotConnected));
        until("links of strangers end", || stranger.links().is_empty()).await;
        // It is added, and told so before the others have applied that.
        stranger.net.switch(Some(CLUSTER), 1, identity(3, 1));
        stranger.net.learn(&[(id(1), nodes[0].at()), (id(2), nodes[1].at())]);
        let ports = [(1, nodes[0].port()), (2, nodes[1].port()), (3, stranger.port())];
        let shared = Arc::new(table(&ports));
        nodes[0].net.update_table(&shared);
        until("linked with who knows it", || stranger.is_linked(1)).await;
        nodes[1].net.update_table(&shared);
        until("linked with all", || stranger.is_linked(2) && nodes[1].is_linked(3)).await;
        assert_eq!(stranger.heard.refused(), None, "trying again is silent");
        let itself = nodes[0].net.call_stranger(to, CallKind::Meet, Vec::new(), PATIENCE).await;
        assert_eq!(itself, Err(CallError::Refused("a node connected to itself".to_owned())));
    });
}

#[test]
fn an_older_generation_learns_that_it_was_given_up() {
    run(async {
        let newer = Node::start(1, |config| config.generation = 2);
        let older = Node::start(2, |config| config.seeds = vec![newer.at()]);
        let shared = Arc::new(table(&[(1, newer.port()), (2, older.port())]));
        newer.net.update_table(&shared);
        older.net.update_table(&shared);
        until("it is told, or sees", || {
            older.heard.refused() == Some(RefusalCode::OldGeneration)
                || older.heard.any(|n| matches!(n, Notice::NewerGeneration { generation: 2, .. }))
        })
        .await;
        assert!(!newer.is_linked(2) && !older.is_linked(1));
    });
}

#[test]
fn a_node_on_a_new_port_is_found_through_one_seed_and_the_book() {
    run(async {
        // The table's addresses are all out of date.
        let shared = Arc::new(table(&[(1, 1), (2, 1), (3, 1)]));
        let start = |n, seeds: Vec<Endpoint>, book: String| {
            let node = Node::start(n, |config| {
                config.seeds = seeds;
                config.book = book;
            });
            node.net.update_table(&shared);
            node
        };
        let one = start(1, Vec::new(), String::new());
        let two = start(2, vec![one.at()], String::new());
        let three = start(3, vec![one.at()], String::new());
        let all = |a: &Node, b: &Node, c: &Node| {
            a.is_linked(2) && a.is_linked(3) && b.is_linked(3) && c.is_linked(2)
        };
        until("all are linked", || all(&one, &two, &three)).await;
        // A second time with nothing but what it kept; the others hear of it from the one.
        let book = three.net.book_text();
        drop(three);
        until("it is gone", || !one.is_linked(3) && !two.is_linked(3)).await;
        let three = start(3, Vec::new(), book);
        until("all are linked again", || all(&one, &two, &three)).await;
    });
}

#[test]
fn silent_strangers_cannot_keep_members_out() {
    run(async {
        let hub = Node::start(1, |_| {});
        let address = hub.net.addresses()[0];
        let silent: Vec<StdStream> =
            (0..200).map(|_| StdStream::connect(address).expect("it accepts")).collect();
        until("all were accepted, and few are kept", || {
            let (begun, half_open) = hub.net.inner.state.lock().begun();
            assert!(half_open <= 64, "{half_open}");
            begun >= 200 && half_open == 64 && hub.links().len() == 64
        })
        .await;
        let member = Node::start(2, |config| config.seeds = vec![hub.at()]);
        let shared = Arc::new(table(&[(1, hub.port()), (2, member.port())]));
        hub.net.update_table(&shared);
        member.net.update_table(&shared);
        until("the member is linked", || hub.is_linked(2)).await;
        until("the silent ones are told off", || hub.links().len() == 1).await;
        drop(silent);
    });
}

/// A member that greets, and then neither reads nor speaks.
fn greet_and_stop(hub: &Node, n: u8, table_version: u64) -> StdStream {
    let hello = Hello {
        versions: PROTOCOL_VERSIONS,
        has_secret: true,
        as_stranger: false,
        cluster: Some(CLUSTER),
        generation: 1,
        table_version,
        identity: identity(n, 1),
        challenge: [7; 32],
        name: format!("node-{n}"),
        server_version: "0.1.0".to_owned(),
        bus: Endpoint::new("127.0.0.1", 1),
        client: Endpoint::new("127.0.0.1", 1),
    };
    let terms = Terms { hello, secret: Secret::new(b"secret") };
    let mut link = Link::new(Side::Dialer, terms, 0);
    let mut stream = StdStream::connect(hub.net.addresses()[0]).expect("it accepts");
    let mut buffer = [0; 4096];
    loop {
        let mut is_up = false;
        while let Some(event) = link.poll(0) {
            match event {
                Event::Greeted => link.judged(Ok(Standing::Member), &[]),
                Event::Up(_) => is_up = true,
                other => panic!("{other:?}"),
            }
        }
        let mut out = Vec::new();
        link.output(&mut out, 0);
        stream.write_all(&out).expect("it reads");
        if is_up {
            return stream;
        }
        let count = stream.read(&mut buffer).expect("it speaks");
        assert!(count > 0, "closed");
        link.receive(&buffer[..count], 0);
    }
}

#[test]
fn a_member_that_reads_nothing_fills_its_queue_and_loses_its_link() {
    run(async {
        let hub = Node::start(1, |_| {});
        let agreed = table(&[(1, hub.port()), (2, 1)]);
        hub.net.update_table(&Arc::new(agreed.clone()));
        let stuck = greet_and_stop(&hub, 2, agreed.version().0);
        until("linked", || hub.is_linked(2)).await;
        let body = vec![0; 1 << 20];
        let mut calls = Vec::new();
        let patience = Duration::from_millis(300);
        loop {
            let mut call = hub.net.call(id(2), CallKind::RaftSnapshot, body.clone(), patience);
            // Those that are refused are so at once.
            match poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
                Poll::Pending => calls.push(call),
                Poll::Ready(end) => {
                    assert_eq!(end, Err(CallError::Busy));
                    break;
                }
            }
            // What the sockets take, too.
            assert!(calls.len() * body.len() < 4 * MAX_QUEUED_CALL_BYTES, "no end");
        }
        assert!(calls.len() >= MAX_QUEUED_CALL_BYTES / body.len() - 1, "{}", calls.len());
        for call in calls {
            assert_eq!(call.await, Err(CallError::NoAnswer));
        }
        until("the link is closed", || !hub.is_linked(2)).await;
        until("and forgotten", || hub.links().is_empty()).await;
        drop(stuck);
    });
}
