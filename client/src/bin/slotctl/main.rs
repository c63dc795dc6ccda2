//! slotctl: the operator's tool of slotd.
//!
//! ```text
//!   words --args--> Verb --verbs/*--> Request --cluster--> one node, or each of them
//!                     |                  |       find: whom to ask next; edge: sockets
//!                     |                  v
//!                     +--> plan, confirm, survey, health --> render --> text or JSON, Exit
//!                     +--> backup: what goes between nodes and a folder, many streams at once
//!                     +--> moves: what is known of slots on their way, and what follows from it
//! ```
//! Not the server's side: `SLOTD` in its command table answers. Invariant: each run prints one
//! answer or one error line, after the events of what it watched, and ends with a code of `exit`.

mod args;
mod backup;
mod cluster;
mod confirm;
mod edge;
mod exit;
mod find;
mod health;
mod moves;
mod names;
mod plan;
mod render;
mod reply;
mod request;
mod resp;
mod survey;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;

use args::help::{self, Unparsed};
use args::{Cli, Color, Common};
use edge::Terminal;
use exit::{Exit, Failure};
use render::Paint;
use verbs::Shown;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(run(&words).code())
}

fn run(words: &[OsString]) -> Exit {
    let mut terminal = Terminal::new();
    let cli = match help::parse(words) {
        Ok(cli) => cli,
        Err(Unparsed::Text(text)) => return print(&mut terminal, Exit::Done, &text),
        Err(Unparsed::Mistake(failure)) => {
            return complain(&mut terminal, &failure, form_of(words));
        }
    };
    let form = if cli.common.json { Form::Json } else { Form::Text };
    let paint = paint(&cli.common);
    match answer(cli, paint) {
        Ok(Shown { exit, text, json }) => match form {
            Form::Text => print(&mut terminal, exit, &text),
            Form::Json => print(&mut terminal, exit, &format!("{json}\n")),
        },
        Err(failure) => complain(&mut terminal, &failure, form),
    }
}

fn answer(cli: Cli, paint: Paint) -> Result<Shown, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    verbs::run(cli, paint, &variable)
}

/// For whom the output is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// What the words ask for, where they could not be parsed.
fn form_of(words: &[OsString]) -> Form {
    let options = words.iter().take_while(|word| *word != "--");
    if options.into_iter().any(|word| word == "--json") { Form::Json } else { Form::Text }
}

fn paint(common: &Common) -> Paint {
    let says = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = says("TERM").is_some_and(|term| term == "dumb");
    let auto = || says("NO_COLOR").is_none() && !dumb && Terminal::is_watched();
    match common.color {
        Color::Always => Paint::Ansi,
        Color::Auto if auto() => Paint::Ansi,
        Color::Auto | Color::Never => Paint::Plain,
    }
}

fn print(terminal: &mut Terminal, exit: Exit, text: &str) -> Exit {
    match terminal.out(text) {
        Ok(()) => exit,
        Err(error) => {
            terminal.note(&format!("the output cannot be written: {error}"));
            // What was done stays done; only a good end is no longer one.
            if exit == Exit::Done { Exit::Refused } else { exit }
        }
    }
}

fn complain(terminal: &mut Terminal, failure: &Failure, form: Form) -> Exit {
    match form {
        Form::Text => terminal.note(&failure.text),
        Form::Json => {
            let error = json!({ "error": failure.text, "exit": failure.exit.code() });
            return print(terminal, failure.exit, &format!("{error}\n"));
        }
    }
    failure.exit
}
