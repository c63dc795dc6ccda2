//! What other nodes say of this one: refused, known with another start, removed, left behind by a
//! recovery. Each ends in fewer roles or in the end of the process, never in more.
//!
//! Not who may say it: only nodes that proved to know the secret are heard (`peer`).
//! Invariant: a node that may have been succeeded serves nothing from the moment it hears of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use slots::{Boot, NodeId, Nonce};

use super::member::Member;
use crate::control::seat::{Ending, Identity, Standing};
use crate::io::{clock, exit};
use crate::peer::{Notice, Notices, RefusalCode};
use crate::vital::vital;

impl Member {
    fn refused_by(&self, node: NodeId, code: RefusalCode, detail: u64, text: &str) {
        let is_seated = self.standing() == Standing::Seated;
        match code {
            RefusalCode::Outdated => self.is_taken(Boot(detail), None, text),
            RefusalCode::Doubled if !is_seated => {
                let nonce = Nonce::from_bytes(detail.to_le_bytes());
                self.is_taken(self.identity().boot, Some(nonce), text);
            }
            RefusalCode::OldGeneration => self.given_up(detail),
            RefusalCode::IdInUse if !is_seated => exit::fatal(text),
            // A member whose table is not older than ours knows us as removed, or no more.
            RefusalCode::Removed | RefusalCode::Unknown
                if self.is_in_own_table() && !self.removed.swap(true, Ordering::SeqCst) =>
            {
                tracing::warn!(%node, "this node is out of the cluster: {text}");
                // Its own table may never say so, and what it owned may have another owner now.
                let _in_order = self.applying.lock();
                self.state().install_standing(Standing::Removed);
            }
            _ => {}
        }
    }

    /// Does the table that this node has applied hold it?
    fn is_in_own_table(&self) -> bool {
        let me = self.identity().node;
        self.cluster().is_some_and(|cluster| cluster.table().node(me).is_some())
    }

    /// A member knows another start with our boot number, or a later one: goes on with the next
    /// number, or ends.
    fn is_taken(&self, recorded: Boot, nonce: Option<Nonce>, text: &str) {
        let (number, step) = {
            let mut life = self.life.write();
            let step = life.startup.taken(recorded, nonce, clock::now().mono_ns);
            (life.number, step)
        };
        match step {
            Some(step) => self.carry_out(number, step),
            None => exit::fatal(text),
        }
    }

    /// The cluster was recovered without this node: what it serves is served elsewhere. It serves
    /// nothing from now on, and ends unless whoever recovered tells it to follow.
    fn given_up(&self, generation: u64) {
        /// Longer than whoever recovered goes on telling (`recovery`).
        const GRACE: Duration = Duration::from_secs(20);
        let number = self.life.read().number;
        // Old news, if the node follows that generation by now.
        let is_news = generation > self.dir.lock().cluster().1;
        if !is_news || self.given_up_life.swap(number, Ordering::SeqCst) == number {
            return;
        }
        tracing::error!(
            generation,
            "the cluster was recovered without this node: it stops serving"
        );
        {
            let _in_order = self.applying.lock();
            self.state().install_standing(Standing::Starting);
        }
        let member = self.own.clone();
        self.runtime.spawn(vital("end of a life given up", async move {
            tokio::time::sleep(GRACE).await;
            let Some(member) = member.upgrade() else { return };
            if member.life.read().number == number {
                member.superseded(generation);
            }
        }));
    }

    fn superseded(&self, generation: u64) -> ! {
        let mut dir = self.dir.lock();
        // If it cannot be stored the next start is told again.
        if let Err(error) = dir.note_superseded(generation) {
            tracing::error!(%error, "the later generation is not stored");
        }
        exit::fatal(&format!(
            "the cluster was recovered at generation {generation}; this node belongs to generation \
             {}, which was given up: start it in an empty folder and join it again",
            dir.cluster().1
        ))
    }

    pub(super) fn explain(&self, ending: Ending) -> String {
        let Identity { node, boot, .. } = self.identity();
        match ending {
            Ending::Doubled { boot } => format!(
                "boot {boot} of node {node} was taken by another start of its data directory: two \
                 copies run, or this one is older. Keep the newest and wipe the other; a backup is \
                 started with --restored yes"
            ),
            Ending::Outdated { recorded, .. } => format!(
                "this data directory is older than the last start of node {node}: the cluster \
                 knows boot {recorded}, this is boot {boot}. If it comes from a backup and the \
                 node runs nowhere else, start it with --restored yes"
            ),
            Ending::OtherStore { recorded } => format!(
                "the cluster knows node {node} with another data directory ({recorded}): if that \
                 disk is lost, tell the cluster (slotctl node lost {node}), then start this node \
                 in an empty folder and add it"
            ),
        }
    }
}

impl Notices for Member {
    fn notice(&self, notice: Notice) {
        match notice {
            Notice::RefusedBy { node, code, detail, text } => {
                self.refused_by(node, code, detail, &text);
            }
            Notice::Superseded { boot } => exit::fatal(&format!(
                "a newer start of this node (boot {boot}) runs: two copies of one data directory. \
                 Keep one; give every node a data directory of its own"
            )),
            Notice::LinkUp { .. } if self.peers.get().is_some() => self.write_book(),
            Notice::LinkUp { .. } => {}
            Notice::NewerGeneration { generation, .. } => self.given_up(generation),
            Notice::LinkDown { .. } => {}
        }
    }
}
