//! The in-process network: every call is a task; links can be cut in both directions or one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use slots::NodeId;

use crate::control::raft::Cluster;
use crate::peer::{Answers, Boxed, CallError, CallKind, Calls};

#[derive(Default)]
pub(super) struct Links {
    nodes: Mutex<BTreeMap<NodeId, Weak<Cluster>>>,
    cut: Mutex<BTreeSet<(NodeId, NodeId)>>,
    slow: Mutex<BTreeMap<NodeId, Duration>>,
}

impl Links {
    pub(super) fn new() -> Arc<Links> {
        Arc::default()
    }

    pub(super) fn plug(&self, node: NodeId, cluster: &Arc<Cluster>) {
        self.nodes.lock().insert(node, Arc::downgrade(cluster));
    }

    pub(super) fn unplug(&self, node: NodeId) {
        self.nodes.lock().remove(&node);
    }

    /// Every message from or to the node takes this long from now on, in each direction.
    pub(super) fn slow_down(&self, node: NodeId, delay: Duration) {
        self.slow.lock().insert(node, delay);
    }

    fn delay(&self, from: NodeId, to: NodeId) -> Duration {
        let slow = self.slow.lock();
        [from, to].iter().filter_map(|node| slow.get(node)).max().copied().unwrap_or_default()
    }

    /// Cuts a node off from all others.
    pub(super) fn isolate(&self, node: NodeId) {
        let others: Vec<NodeId> = self.nodes.lock().keys().copied().collect();
        let mut cut = self.cut.lock();
        for other in others {
            cut.extend([(node, other), (other, node)]);
        }
    }

    pub(super) fn heal(&self) {
        self.cut.lock().clear();
    }

    pub(super) fn port(self: &Arc<Links>, from: NodeId) -> Arc<dyn Calls> {
        Arc::new(Port { links: Arc::clone(self), from })
    }

    fn reach(&self, from: NodeId, to: NodeId) -> Option<Arc<Cluster>> {
        if self.cut.lock().contains(&(from, to)) {
            return None;
        }
        self.nodes.lock().get(&to).and_then(Weak::upgrade)
    }
}

struct Port {
    links: Arc<Links>,
    from: NodeId,
}

impl Calls for Port {
    fn call(
        &self,
        to: NodeId,
        kind: CallKind,
        body: Vec<u8>,
        patience: Duration,
    ) -> Boxed<Result<Vec<u8>, CallError>> {
        let (links, from) = (Arc::clone(&self.links), self.from);
        Box::pin(async move {
            let Some(cluster) = links.reach(from, to) else { return Err(CallError::NotConnected) };
            let delay = links.delay(from, to);
            let answering = async {
                tokio::time::sleep(delay).await;
                let answer = cluster.answer(from, kind, body).await;
                tokio::time::sleep(delay).await;
                answer
            };
            match tokio::time::timeout(patience, answering).await {
                // The answer goes the other way.
                Ok(_)
                    if links.reach(to, from).is_none()
                        && links.nodes.lock().contains_key(&from) =>
                {
                    Err(CallError::NoAnswer)
                }
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(why)) => Err(CallError::Refused(why)),
                Err(_) => Err(CallError::NoAnswer),
            }
        })
    }
}
