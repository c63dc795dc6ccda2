//! Links to other nodes: the listening sockets, the dialers, one task per link.
//!
//! Not the protocol (`crate::peer`): here bytes, clocks and chance meet it.
//! Invariant: neither lock is held over IO or an await, and never two of them at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slots::{ClusterId, Endpoint, NodeId, SlotTable};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;

use crate::io::clock;
use crate::peer::greeting::{Address, Secret};
use crate::peer::refusal::Refusal;
use crate::peer::{
    Answers, Boxed, CallError, CallKind, Calls, Identity, Notices, PeerStatus, PeerView, Traffic,
};
use crate::vital::vital;

mod dial;
mod handle;
mod socket;
mod state;
mod task;

use handle::Handle;
use state::State;

/// Dials at once: host names are looked up on threads, of which there are not many.
const MAX_DIALS: usize = 32;

/// Closed links whose last words are waited for; further ones are closed at once.
const MAX_LINGERS: usize = 64;

/// What a node's links begin with.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Who this process is.
    pub identity: Identity,
    /// Its cluster; `None`: no node is a member of the same one, only strangers' links are made.
    pub cluster: Option<ClusterId>,
    /// The cluster's generation.
    pub generation: u64,
    /// The shared secret.
    pub secret: Option<Secret>,
    /// Where to listen; port 0 takes any free one.
    pub listen: Vec<SocketAddr>,
    /// Where other nodes are told to connect. An empty host: where they see this node's links
    /// come from. Port 0: the first that is listened on.
    pub bus: Endpoint,
    /// Where clients connect.
    pub client: Endpoint,
    /// The node's name.
    pub name: String,
    /// The server's version.
    pub server_version: String,
    /// Where to look for members before any is known.
    pub seeds: Vec<Endpoint>,
    /// The address book as it was kept (`PeerNet::book_text`); empty is none.
    pub book: String,
}

/// What tasks and callers share.
struct Inner {
    state: Mutex<State>,
    answers: Arc<dyn Answers>,
    notices: Arc<dyn Notices>,
    secret: Option<Secret>,
    /// The dialer is to look again.
    dial: Notify,
    dials: Semaphore,
    lingers: Semaphore,
    counters: Counters,
}

/// Frames of all links since the start.
#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Counters {
    fn add(&self, traffic: Traffic) {
        self.sent.fetch_add(traffic.sent, Ordering::Relaxed);
        self.received.fetch_add(traffic.received, Ordering::Relaxed);
    }
}

/// All links of a node. Dropping it ends them.
pub struct PeerNet {
    inner: Arc<Inner>,
    addresses: Vec<SocketAddr>,
    tasks: Vec<AbortHandle>,
}

impl PeerNet {
    /// Listens, and begins to dial. To be called on the runtime that is to carry the links. The
    /// error is about an address that cannot be listened on.
    pub fn start(
        mut config: PeerConfig,
        answers: Arc<dyn Answers>,
        notices: Arc<dyn Notices>,
    ) -> io::Result<Arc<PeerNet>> {
        let mut listeners = Vec::new();
        for address in &config.listen {
            let listener = socket::listen(*address).map_err(|error| {
                let text = format!("cannot listen for nodes on {address}: {error}");
                io::Error::new(error.kind(), text)
            })?;
            listeners.push(listener);
        }
        let local = listeners.iter().map(TcpListener::local_addr);
        let addresses = local.collect::<io::Result<Vec<_>>>()?;
        if let (0, Some(address)) = (config.bus.port, addresses.first()) {
            config.bus.port = address.port();
        }
        let inner = Arc::new(Inner {
            secret: config.secret.clone(),
            state: Mutex::new(State::new(config, clock::now().mono_ns)),
            answers,
            notices,
            dial: Notify::new(),
            dials: Semaphore::new(MAX_DIALS),
            lingers: Semaphore::new(MAX_LINGERS),
            counters: Counters::default(),
        });
        let accepts = listeners.into_iter().map(|listener| {
            tokio::spawn(vital("accept links", dial::accept_all(inner.clone(), listener)))
        });
        let mut tasks: Vec<AbortHandle> = accepts.map(|task| task.abort_handle()).collect();
        tasks.push(tokio::spawn(vital("dial", dial::dial_all(inner.clone()))).abort_handle());
        Ok(Arc::new(PeerNet { inner, addresses, tasks }))
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// A new version of the table was applied: who may greet, and where they are. Links of nodes
    /// that it removed, and of starts that it knows to be old, are closed.
    pub fn update_table(&self, table: &Arc<SlotTable>) {
        let now_ns = clock::now().mono_ns;
        let (checks, status) = {
            let mut state = self.inner.state.lock();
            state.install(table.clone(), now_ns);
            (state.links_to_judge(), state.status())
        };
        for check in checks {
            check.handle.say(status);
            check.judge_again();
        }
        self.inner.dial.notify_one();
    }

    /// What pings say from now on.
    pub fn set_status(&self, status: PeerStatus) {
        let handles = {
            let mut state = self.inner.state.lock();
            state.set_status(status);
            state.handles()
        };
        handles.iter().for_each(|handle| handle.say(status));
    }

    /// What greetings say from now on of where this node is reached, and of its name.
    pub fn announce(&self, name: &str, bus: Endpoint, client: Endpoint) {
        self.inner.state.lock().announce(name, bus, client);
    }

    /// This node is now of another cluster, or another node: all links end, and others are made.
    /// The address book is emptied; `learn` fills it.
    pub fn switch(&self, cluster: Option<ClusterId>, generation: u64, identity: Identity) {
        let handles = self.inner.state.lock().switch(cluster, generation, identity);
        handles.iter().for_each(|handle| handle.close(Refusal::Leaving));
        self.inner.dial.notify_one();
    }

    /// Takes in an address book that was kept (`book_text`): after a `switch` to the same cluster.
    pub fn remember(&self, book: &str) {
        self.inner.state.lock().remember(book, clock::now().mono_ns);
        self.inner.dial.notify_one();
    }

    /// Members of the cluster and where they are, as someone trusted said: they are dialed.
    pub fn learn(&self, addresses: &[Address]) {
        self.inner.state.lock().learn(addresses, clock::now().mono_ns);
        self.inner.dial.notify_one();
    }

    /// The other nodes, as last heard: those of the table, and those that have a link.
    pub fn views(&self) -> Vec<PeerView> {
        let now_ns = clock::now().mono_ns;
        let found = self.inner.state.lock().views();
        let finish = |(view, handle, heard_ns)| state::finish(view, handle, heard_ns, now_ns);
        found.into_iter().map(finish).collect()
    }

    /// Frames of all links since the start, those of strangers included.
    pub fn traffic(&self) -> Traffic {
        let Counters { sent, received } = &self.inner.counters;
        Traffic { sent: sent.load(Ordering::Relaxed), received: received.load(Ordering::Relaxed) }
    }

    /// The address book, to be kept for the next start.
    pub fn book_text(&self) -> String {
        self.inner.state.lock().book_text()
    }

    /// Asks a node that is no member, over a link of its own: `CallKind::Meet`. `patience` is for
    /// all of it, connecting included.
    pub fn call_stranger(
        &self,
        to: Endpoint,
        kind: CallKind,
        body: Vec<u8>,
        patience: Duration,
    ) -> Boxed<Result<Vec<u8>, CallError>> {
        Box::pin(dial::call_stranger(self.inner.clone(), to, kind, body, patience))
    }

    /// Ends all links and stops listening.
    pub fn stop(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        let handles = self.inner.state.lock().stop();
        handles.iter().for_each(|handle| handle.close(Refusal::Leaving));
    }
}

impl Drop for PeerNet {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Calls for PeerNet {
    fn call(
        &self,
        to: NodeId,
        kind: CallKind,
        body: Vec<u8>,
        patience: Duration,
    ) -> Boxed<Result<Vec<u8>, CallError>> {
        let handle: Option<Arc<Handle>> = self.inner.state.lock().handle_of(to);
        Box::pin(async move {
            match handle {
                Some(handle) => handle.call(kind, body, patience).await,
                None => Err(CallError::NotConnected),
            }
        })
    }
}

#[cfg(test)]
mod tests;
