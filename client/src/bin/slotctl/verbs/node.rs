//! `slotctl node ...`: nodes come, go and change.
//!
//! Not the plans (`plan.rs`). Invariant: what takes something away is shown and confirmed first.

use slots::admin::SlotStatus;

use super::{Session, Shown, target, target_or_gone};
use crate::args::NodeVerb;
use crate::confirm::Question;
use crate::exit::Failure;
use crate::plan;
use crate::request::{Loss, Order, Request};

pub(super) fn run(session: &mut Session, verb: NodeVerb) -> Result<Shown, Failure> {
    let status = session.cluster.status()?;
    let id = |text: &str| target(&status.nodes, text).map(|target| target.id);
    let order = match verb {
        NodeVerb::Add { address } => Order::Add { address },
        NodeVerb::Rename { node, name } => Order::Rename(id(&node)?, name),
        NodeVerb::Label { node, key, value } => Order::Label(id(&node)?, key, value),
        NodeVerb::Drain { node } => Order::Drain(id(&node)?),
        NodeVerb::Undrain { node } => Order::Undrain(id(&node)?),
        NodeVerb::Weight { node, weight } => Order::Weight(id(&node)?, weight),
        NodeVerb::ReplaceVoter { old, new } => {
            let old = id(&old)?;
            let new = new.map(|new| id(&new)).transpose()?;
            if new == Some(old) {
                return Err(Failure::usage("OLD and NEW are the same node"));
            }
            Order::ReplaceVoter(old, new)
        }
        NodeVerb::Remove { node } => {
            let target = target_or_gone(&status.nodes, &node)?;
            let plan = plan::remove(&status, &target)?;
            session.confirm(&plan, "node remove")?;
            Order::Remove(target.id)
        }
        NodeVerb::Lost { node, accept_loss, confirm } => {
            session.consent.typed = confirm;
            return lost(session, &node, if accept_loss { Loss::Accepted } else { Loss::Refused });
        }
    };
    session.order(order)
}

fn lost(session: &mut Session, node: &str, loss: Loss) -> Result<Shown, Failure> {
    let survey = session.cluster.survey()?;
    let target = target_or_gone(&survey.base.nodes, node)?;
    let rows: Vec<SlotStatus> = session.cluster.ask(&Request::Slots)?;
    let plan = plan::lost(&survey, &rows, &target, loss)?;
    session.confirm(&plan, "node lost")?;
    // Consent goes out only where a loss was shown: if the view was old, the cluster refuses.
    let shown = if let Question::Typed(_) = plan.question { loss } else { Loss::Refused };
    session.order(Order::Lost(target.id, shown))
}
