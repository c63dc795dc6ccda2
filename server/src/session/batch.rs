//! Decoding a batch and walking it in stages: decode all; prefetch rooms; prefetch buckets;
//! prefetch entries; then run in order. Stages are worth 150 ns a request (PERF 2).

use crate::command::{Args, NodeState, OwnedArgs, registry};
use crate::resp::{ProtocolError, Scan, ScanLimits, scan, split_quoted};
use crate::session::worker::{BATCH_REQUESTS, Request};
use crate::session::{Session, Worker};
use crate::store::table::hash_key;
use slots::slot_of;

/// How decoding ended.
#[derive(Debug)]
pub(super) enum Decoded {
    /// The batch is full; there may be more.
    Full,
    /// All complete requests are in the batch.
    NeedInput {
        /// Bytes the next one needs from its first.
        bytes: usize,
        /// Input position of the next one's first byte.
        skipped_to: usize,
    },
    /// What follows the batch cannot be understood.
    Broken(ProtocolError),
}

impl Session {
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        mut at: usize,
        worker: &mut Worker,
        node: &NodeState,
    ) -> Decoded {
        worker.args.clear();
        worker.batch.clear();
        worker.quoted.clear();
        let live = node.config.live();
        let limits = ScanLimits {
            max_bulk: live.proto_max_bulk_len.load() as usize,
            authenticated: self.client.authenticated,
            ..ScanLimits::default()
        };
        while worker.batch.len() < BATCH_REQUESTS {
            let first_arg = worker.args.len();
            match scan(input, at, &limits, &mut self.partial, &mut worker.args) {
                Scan::Request { end } => {
                    let request = describe(input, worker, first_arg, end);
                    if let Some((slot, _)) = request.key {
                        node.rooms.prefetch_room(slot);
                    }
                    worker.batch.push(request);
                    at = end;
                }
                Scan::Quoted { end } => {
                    let words = match split_quoted(&input[at..end]) {
                        Ok(words) => words,
                        Err(error) => return Decoded::Broken(error),
                    };
                    at = end;
                    if !words.is_empty() {
                        let owned: OwnedArgs = words.iter().map(Vec::as_slice).collect();
                        worker.batch.push(Request {
                            first_arg,
                            args: owned.args().len(),
                            end,
                            command: registry().find(owned.args().at(0)),
                            key: None,
                            quoted: Some(worker.quoted.len()),
                        });
                        worker.quoted.push(owned);
                    }
                }
                Scan::Nothing { end } => {
                    at = end;
                    if worker.batch.is_empty() {
                        continue;
                    }
                }
                Scan::Incomplete { need } => {
                    return Decoded::NeedInput { bytes: need, skipped_to: at };
                }
                Scan::Broken(error) => return Decoded::Broken(error),
            }
            if !self.client.authenticated {
                // What may follow depends on whether this request logs in.
                break;
            }
        }
        Decoded::Full
    }

    /// Stages 1 to 3. One request alone gains nothing from them.
    pub(super) fn prefetch(&self, worker: &Worker, node: &NodeState) {
        if worker.batch.len() < 2 {
            return;
        }
        for (slot, hash) in worker.batch.iter().filter_map(|r| r.key) {
            node.rooms.prefetch_bucket(slot, hash);
        }
        for (slot, hash) in worker.batch.iter().filter_map(|r| r.key) {
            node.rooms.prefetch_entry(slot, hash);
        }
    }
}

/// Looks the command up and, where word 1 is its only key, slots and hashes it: stage 1.
#[inline]
fn describe(input: &[u8], worker: &Worker, first_arg: usize, end: usize) -> Request {
    let args = Args::new(input, &worker.args[first_arg..]);
    let command = registry().find(args.at(0));
    let mut request =
        Request { first_arg, args: args.len(), end, command, key: None, quoted: None };
    if let Some(id) = command
        && args.len() > 1
        && registry().entry(id).command.keys.is_one()
    {
        let key = args.at(1);
        request.key = Some((slot_of(key), hash_key(key)));
    }
    request
}
