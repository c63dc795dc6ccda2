//! The verbs: each asks the cluster and comes to one answer.
//!
//! Not the printing. Invariant: a verb that changes something has resolved and checked all its
//! arguments before it sends the first order.

mod assign;
mod backup;
mod carry;
mod demo;
mod follow;
mod look;
mod moves;
mod moving;
mod node;
mod recover;
mod restore;
mod wait;

use serde::Serialize;
use serde_json::{Value, json};
use slots::admin::{Done, NodeStatus};

use crate::args::help;
use crate::args::{Cli, Common, DemoVerb, Verb};
use crate::cluster::{Cluster, ORDER_TIMEOUT, Patience, QUESTION_TIMEOUT};
use crate::confirm::{self, Consent};
use crate::edge::{self, Login, Terminal};
use crate::exit::{Exit, Failure};
use crate::find;
use crate::names::{self, Target};
use crate::plan::Plan;
use crate::render::{Paint, lists};
use crate::request::{Order, Request};

/// The variable with the password.
const PASSWORD_VARIABLE: &str = "SLOTCTL_PASSWORD";

/// An answer, for people and for programs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Shown {
    /// How the run ends.
    pub(crate) exit: Exit,
    /// For people.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: Value,
}

impl Shown {
    fn new(text: String, json: &impl Serialize) -> Result<Shown, Failure> {
        Shown::with(Exit::Done, text, json)
    }

    fn with(exit: Exit, text: String, json: &impl Serialize) -> Result<Shown, Failure> {
        let json = serde_json::to_value(json)
            .map_err(|error| Failure::refused(format!("the answer is not JSON: {error}")))?;
        Ok(Shown { exit, text, json })
    }
}

/// What the verbs are carried out with.
struct Session {
    cluster: Cluster,
    consent: Consent,
    paint: Paint,
}

/// Carries out the verb. `variable` reads the environment.
pub(crate) fn run(
    cli: Cli,
    paint: Paint,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Shown, Failure> {
    let Cli { common, verb } = cli;
    let verb = match verb {
        Verb::Demo { verb: DemoVerb::StaleWriter(args) } => {
            return demo::stale_writer(args, common.json);
        }
        verb => verb,
    };
    match &verb {
        Verb::Completions(args) => return completions(args.shell),
        Verb::Help(args) => {
            let text = help::topic(&args.topic)?;
            let json = json!({ "text": text });
            return Shown::new(text, &json);
        }
        _ => {}
    }
    let cluster = cluster(&common, &verb, variable)?;
    let consent = Consent { yes: common.yes, typed: None };
    let mut session = Session { cluster, consent, paint };
    match verb {
        Verb::Status(args) => look::status(&mut session, &args),
        Verb::Nodes => look::nodes(&mut session),
        Verb::Slots(args) => look::slots(&mut session, &args),
        Verb::Explain(args) => look::explain(&mut session, &args),
        Verb::History(args) => look::history(&mut session, &args),
        Verb::Stale(args) => look::stale(&mut session, &args),
        Verb::WaitHealthy(args) => wait::wait_healthy(&mut session, &args, common.timeout),
        Verb::Assign(args) => assign::assign(&mut session, &args),
        Verb::Move(args) => moving::move_slots(&mut session, &args),
        Verb::Moves(args) => moves::moves(&mut session, &args),
        Verb::Cancel(args) => moves::cancel(&mut session, &args),
        Verb::Drain(args) => moving::drain(&mut session, &args),
        Verb::Undo(args) => moving::undo(&mut session, &args),
        Verb::Node { verb } => node::run(&mut session, verb),
        Verb::Backup(args) => backup::backup(&mut session, &args),
        Verb::Restore(args) => restore::restore(&mut session, &args),
        Verb::Recover(args) => recover::recover(&mut session, args),
        Verb::Demo { .. } | Verb::Completions(_) | Verb::Help(_) => {
            Err(Failure::usage("this verb asks no node"))
        }
    }
}

fn cluster(
    common: &Common,
    verb: &Verb,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Cluster, Failure> {
    let start = find::start(&common.server, variable(find::SERVER_VARIABLE).as_deref())?;
    let password = match &common.password_file {
        Some(path) => Some(edge::read_password(path)?),
        None => variable(PASSWORD_VARIABLE).filter(|password| !password.is_empty()),
    };
    if let (Some(user), None) = (&common.user, &password) {
        let user = user.escape_debug();
        return Err(Failure::usage(format!(
            "--user {user} needs a password: give --password-file FILE or {PASSWORD_VARIABLE}"
        )));
    }
    let patience = match (verb, common.timeout) {
        // There the time is for all of it, not for one answer.
        (Verb::WaitHealthy(_), Some(time)) => {
            Patience { question: QUESTION_TIMEOUT.min(time), order: ORDER_TIMEOUT }
        }
        (_, Some(time)) => Patience { question: time, order: time },
        (_, None) => Patience { question: QUESTION_TIMEOUT, order: ORDER_TIMEOUT },
    };
    let mut terminal = Terminal::new();
    if common.json {
        terminal.hush();
    }
    let login = Login { user: common.user.clone(), password };
    Ok(Cluster::new(start, login, patience, terminal))
}

fn completions(shell: clap_complete::Shell) -> Result<Shown, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "slotctl", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    let json = json!({ "text": text });
    Shown::new(text, &json)
}

impl Session {
    /// Gives an order, and shows how it ended.
    fn order(&mut self, order: Order) -> Result<Shown, Failure> {
        let done: Done = self.cluster.ask(&Request::Order(order))?;
        self.done(&done)
    }

    fn done(&self, done: &Done) -> Result<Shown, Failure> {
        let exit = if done.refused.is_empty() { Exit::Done } else { Exit::Refused };
        Shown::with(exit, lists::done(done, self.paint), done)
    }

    /// Shows a plan and makes sure of a yes. `deed` is the verb as typed.
    fn confirm(&mut self, plan: &Plan, deed: &str) -> Result<(), Failure> {
        let terminal = &mut self.cluster.terminal;
        terminal.plan(&plan.lines);
        confirm::confirm(&plan.question, &self.consent, deed, terminal)
    }
}

/// The node a text means; a wrong one is a bad argument.
fn target(nodes: &[NodeStatus], text: &str) -> Result<Target, Failure> {
    names::resolve(nodes, text).map_err(|error| Failure::usage(error.to_string()))
}

/// As [`target`], and a whole id that is in no row is taken at its word: the node may be gone
/// already.
fn target_or_gone(nodes: &[NodeStatus], text: &str) -> Result<Target, Failure> {
    match (target(nodes, text), text.parse()) {
        (Err(_), Ok(id)) => Ok(Target { id, name: text.to_owned() }),
        (found, _) => found,
    }
}
