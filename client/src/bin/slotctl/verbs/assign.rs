//! `slotctl assign`: slots of nobody get an owner.
//!
//! Not the rule (`plan.rs`, and the table's own). Invariant: after a lost answer the table is
//! read again before anything is sent again.

use slots::admin::Done;

use super::{Session, Shown, target};
use crate::args::AssignArgs;
use crate::exit::{Failure, Fate};
use crate::plan::{self, Assignment};
use crate::request::{Order, Request};

/// Times the order is decided anew after its answer got lost: more nodes do not die in a row.
const ATTEMPTS: usize = 3;

pub(super) fn assign(session: &mut Session, args: &AssignArgs) -> Result<Shown, Failure> {
    let mut lost = None;
    for _ in 0..ATTEMPTS {
        let status = match (session.cluster.status(), lost.take()) {
            (Ok(status), before) => {
                lost = before;
                status
            }
            // Nobody is left to tell what became of it.
            (Err(_), Some(before)) => return Err(before),
            (Err(failure), None) => return Err(failure),
        };
        let target = target(&status.nodes, &args.node)?;
        let slots = match plan::assign(&status, &args.slots, &target)? {
            Assignment::Left(slots) => slots,
            Assignment::Nothing => {
                let text = format!("{} owns slots {}", target.name, args.slots);
                let table_version = status.table_version;
                // After a lost answer it is this order that did it, as far as anybody can tell.
                let changed = lost.is_some();
                return session.done(&Done { table_version, changed, text, refused: Vec::new() });
            }
        };
        let seen = status.table_version;
        let order = Order::Assign { slots, node: target.id, seen };
        match session.cluster.ask(&Request::Order(order)) {
            Ok(done) => return session.done(&done),
            Err(failure) if failure.fate == Fate::AnswerLost => {
                session.cluster.say(format!("{}; looking again", failure.text));
                session.cluster.turn_away();
                lost = Some(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    Err(lost.unwrap_or_else(|| Failure::refused("nothing was assigned")))
}
