//! `slotctl recover`: one node goes on alone after the majority is lost for good.
//!
//! Not the plan (`plan.rs`). Invariant: the order goes to the node that was named, once, and to
//! no other.

use super::{Session, Shown};
use crate::args::RecoverArgs;
use crate::exit::Failure;
use crate::plan;
use crate::request::{Order, Request};
use crate::survey::Survey;

pub(super) fn recover(session: &mut Session, args: RecoverArgs) -> Result<Shown, Failure> {
    session.consent.typed = args.confirm;
    session.cluster.stay()?;
    let here = session.cluster.status()?;
    let heard = session.cluster.ask_each(&here, &Request::Status);
    let survey = Survey::new(here.clone(), heard);
    let plan = plan::recover(&here, &survey)?;
    session.confirm(&plan, "recover")?;
    session.order(Order::Recover { cluster: here.cluster })
}
