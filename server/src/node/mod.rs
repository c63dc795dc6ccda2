//! A node: the cores wired together and started.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slots::{ClusterId, NodeId, SlotId, SlotRanges};
use tokio::sync::Notify;

use crate::announce::OwnAddress;
use crate::command::{NodeState, Topology};
use crate::config::{Applied, Start};
use crate::control::fixed::{FoundingNode, TableSink};
use crate::control::seat::Standing;
use crate::control::{FixedTable, ProposeError};
use crate::io::edges::{RealChores, RealEdges};
use crate::io::expiry::ExpiryTask;
use crate::io::{clock, listen, log, metrics, signals};
use crate::slot::Rooms;

/// How often memory is compared with maxmemory and pauses are looked after.
const TICK: Duration = Duration::from_millis(20);

impl TableSink for NodeState {
    fn install(&self, table: Arc<slots::SlotTable>) {
        NodeState::install(self, table);
    }
}

/// Runs a node until it is told to stop. Errors are about starting.
pub async fn run(start: Start) -> io::Result<()> {
    let stop = Arc::new(Notify::new());
    let node = build(&start, stop.clone())?;
    start.config.carried_out_by(Arc::new(carry_out));
    let backlog = start.config.number("tcp-backlog") as u32;
    let listeners = listen::bind_all(&start.bind, start.port, backlog)?;
    metrics::start(&start.config, &node, None)?;
    for (address, listener) in listeners {
        tracing::info!(%address, "serving");
        tokio::spawn(listen::accept_all(listener, node.clone()));
    }
    // In a table from a file, all nodes must find the same.
    let own = start.static_table.is_none().then(|| OwnAddress::of(&start));
    tokio::spawn(tick(node.clone(), own));
    println!("slotd is ready on port {}", start.port);
    let signal = tokio::select! {
        signal = signals::asked_to_stop() => signal?,
        () = stop.notified() => "SHUTDOWN",
    };
    tracing::info!(signal, "stopping");
    Ok(())
}

/// Carries out options that are more than a number to read.
fn carry_out(option: &'static str, value: &str) -> Applied {
    match option {
        "loglevel" => {
            log::set_level(value);
            Applied::Done
        }
        _ => Applied::NotMine,
    }
}

/// Builds a node's state: identity, table, rooms.
fn build(start: &Start, stop: Arc<Notify>) -> io::Result<Arc<NodeState>> {
    std::fs::create_dir_all(&start.dir)?;
    let (me, cluster, nodes) = identity(start)?;
    let fixed = FixedTable::found(cluster, me, &nodes).map_err(io::Error::other)?;
    let fixed = Arc::new(fixed);
    let (chores, due) = RealChores::start();
    let freeing = chores.freeing.clone();
    let rooms = Rooms::new(Box::new(chores));
    let run_id = format!("{}{}", hex(20), hex(20));
    let node = Arc::new(NodeState::new(
        start.config.clone(),
        rooms,
        Topology { table: fixed.table(), me, standing: Standing::Seated },
        Box::new(RealEdges { stop, freeing }),
        Box::new(fixed.clone()),
        Box::new(fixed.clone()),
        run_id,
        start.file.as_ref().map(|f| f.display().to_string()),
    ));
    let sink: Arc<dyn TableSink> = node.clone();
    fixed.tell(Arc::downgrade(&sink));
    node.sync_limits();
    tokio::spawn(ExpiryTask::new(node.clone(), due).run());
    Ok(node)
}

fn hex(digits: usize) -> String {
    let mut text = String::new();
    while text.len() < digits {
        text.push_str(&format!("{:016x}", clock::random_u64()));
    }
    text.truncate(digits);
    text
}

/// Who this node is and what the table begins with.
fn identity(start: &Start) -> io::Result<(NodeId, ClusterId, Vec<FoundingNode>)> {
    if let Some(file) = &start.static_table {
        let text = std::fs::read_to_string(file)?;
        let nodes = crate::static_table::parse(&text).map_err(io::Error::other)?;
        let me = nodes
            .iter()
            .find(|n| n.name == start.name)
            .ok_or_else(|| io::Error::other(format!("no node '{}' in it", start.name)))?
            .id;
        return Ok((me, ClusterId::from_bytes(*nodes[0].id.bytes()), nodes));
    }
    let id = stored_id(&start.dir)?;
    let name = match start.name.as_str() {
        "" => format!("node-{}", start.port),
        name => name.to_owned(),
    };
    let slots = match start.starts_empty {
        true => SlotRanges::new(),
        false => SlotId::all().collect(),
    };
    let addresses = OwnAddress::of(start).announced(start.config.live());
    Ok((id, ClusterId::from_bytes(*id.bytes()), vec![FoundingNode { id, name, addresses, slots }]))
}

/// The node's id for life, in its data directory.
fn stored_id(dir: &Path) -> io::Result<NodeId> {
    let path = dir.join("node.id");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            text.trim().parse().map_err(|e| io::Error::other(format!("{}: {e}", path.display())))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let id = hex(40);
            std::fs::write(&path, format!("{id}\n"))?;
            id.parse().map_err(|e| io::Error::other(format!("a new node id: {e}")))
        }
        Err(e) => Err(e),
    }
}

/// Tells the table when CONFIG SET changed what this node announces.
fn announce(node: &NodeState, own: &OwnAddress) {
    let topology = node.topology();
    let change = own.change(topology.me, &topology.table, node.config.live());
    let Some(change) = change else { return };
    let done = |outcome: Result<slots::Verdicts, ProposeError>| {
        let refused = outcome.map(|verdicts| verdicts.all());
        if refused != Ok(Ok(())) {
            tracing::warn!(?refused, "the announced address is not told to clients");
        }
    };
    node.table_log.propose(change, "itself", Box::new(done));
}

/// Looks after what has no event of its own.
async fn tick(node: Arc<NodeState>, own: Option<OwnAddress>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut revision = node.config.live().revision();
    loop {
        interval.tick().await;
        node.check_memory();
        let now = clock::now();
        node.tick_pause(now);
        node.rooms.settle();
        node.promises.tick(now.mono_ns, &node.clients);
        node.stats.sample_rates(now.mono_ns);
        if let Some(line) = node.stale_line(now) {
            tracing::warn!("{line}");
        }
        let newest = node.config.live().revision();
        if newest != revision {
            revision = newest;
            node.sync_limits();
            if let Some(own) = &own {
                announce(&node, own);
            }
        }
    }
}
