//! Help and usage errors: verbs in groups, topics of `slotctl help`, errors of one line.
//!
//! Not the words themselves, which stand at the arguments. Invariant: a usage error is one line
//! that names the argument.

use std::ffi::OsString;
use std::fmt::Write;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, FromArgMatches};

use super::{Cli, page};
use crate::exit::{self, Failure};

/// The verbs as `slotctl --help` and the manual list them.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Look", &["status", "nodes", "slots", "explain", "history", "stale"]),
    ("Wait", &["wait-healthy"]),
    ("Move slots", &["move", "moves", "cancel", "drain", "undo"]),
    (
        "Change",
        &[
            "node add",
            "node remove",
            "node rename",
            "node label",
            "node drain",
            "node undrain",
            "node weight",
            "node replace-voter",
            "assign",
        ],
    ),
    ("Keep and bring back", &["backup", "restore"]),
    ("After a disaster", &["node lost", "recover"]),
    ("The tool itself", &["demo stale-writer", "completions", "help"]),
];

/// The topics of `slotctl help` that are no verbs.
const EXIT_CODES: &str = "exit-codes";
const MANUAL: &str = "manual";

/// What the words of a command line came to, if not to a verb to carry out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unparsed {
    /// Help or the version, to be printed.
    Text(String),
    /// A mistake.
    Mistake(Failure),
}

/// The whole command line.
pub(crate) fn command() -> Command {
    let plain = Cli::command();
    let template = format!(
        "{{about-with-newline}}\nUsage: slotctl [OPTIONS] VERB ...\n\n{}`slotctl VERB --help` says \
         more.\n\nOptions of every verb:\n{{options}}\n\nExit codes:\n{}{{after-help}}",
        groups_text(&plain),
        exit::table_text()
    );
    plain.help_template(template)
}

/// Reads the words, the program's name first.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, Unparsed> {
    let matches = command().try_get_matches_from(words);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    cli.map_err(|error| unparsed(&error, words))
}

/// The text of a topic: a verb's path, `exit-codes` or `manual`; no words mean the whole tool.
pub(crate) fn topic(words: &[String]) -> Result<String, Failure> {
    if words == [EXIT_CODES] {
        return Ok(format!("Exit codes of slotctl:\n{}", exit::table_text()));
    }
    if words == [MANUAL] {
        return Ok(page::page());
    }
    let mut whole = command();
    whole.build();
    let mut at = &mut whole;
    for word in words {
        at = at.find_subcommand_mut(word).ok_or_else(|| {
            let topic = words.join(" ");
            Failure::usage(format!(
                "no help on '{}': topics are the verbs of `slotctl --help`, {EXIT_CODES}, {MANUAL}",
                topic.escape_debug()
            ))
        })?;
    }
    Ok(at.render_long_help().to_string())
}

/// The subcommand at `path`, such as `node add`.
pub(crate) fn at_path<'a>(whole: &'a Command, path: &str) -> Option<&'a Command> {
    path.split(' ').try_fold(whole, |at, word| at.find_subcommand(word))
}

fn groups_text(whole: &Command) -> String {
    let paths = GROUPS.iter().flat_map(|(_, paths)| paths.iter());
    let width = paths.map(|path| path.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (group, paths) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for path in paths {
            let about = at_path(whole, path).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {path:width$}  {about}");
        }
        text.push('\n');
    }
    text
}

fn unparsed(error: &clap::Error, words: &[OsString]) -> Unparsed {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Unparsed::Text(text),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let verb = verb_of(words);
            Unparsed::Mistake(Failure::usage(format!("no verb given; `{verb} --help` lists them")))
        }
        _ => {
            let (line, verb) = (one_line(&text), verb_of(words));
            Unparsed::Mistake(Failure::usage(format!("{line} (see `{verb} --help`)")))
        }
    }
}

/// clap's message as one line: its first paragraph and its tips.
fn one_line(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let told = paragraphs.enumerate().filter(|(at, line)| *at == 0 || line.starts_with("tip: "));
    let told: Vec<String> = told.map(|(_, line)| line).collect();
    told.join("; ").trim_start_matches("error: ").to_owned()
}

/// The verb that a command line is about, as far as it can be told: `slotctl node add`.
fn verb_of(words: &[OsString]) -> String {
    let whole = command();
    let (mut at, mut path) = (&whole, String::from("slotctl"));
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(sub) = at.find_subcommand(word) {
            at = sub;
            path.push(' ');
            path.push_str(word);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a line as a shell splits it, single quotes understood, up to a redirection.
    fn words(line: &str) -> Vec<OsString> {
        let mut words = Vec::new();
        for (at, piece) in line.split('\'').enumerate() {
            if at % 2 == 1 {
                words.push(piece.to_owned());
            } else {
                let plain = piece.split_whitespace().take_while(|word| *word != ">");
                words.extend(plain.map(str::to_owned));
            }
        }
        words.into_iter().map(OsString::from).collect()
    }

    fn mistake(line: &str) -> String {
        match parse(&words(line)) {
            Err(Unparsed::Mistake(failure)) => {
                assert_eq!(failure.exit, exit::Exit::Usage, "{line}");
                assert!(!failure.text.contains('\n'), "{line}");
                failure.text
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands() {
            let path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
            if sub.has_subcommands() {
                leaves(sub, &path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn clap_finds_no_fault_in_the_declarations() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_is_in_one_group() {
        let mut verbs = Vec::new();
        leaves(&Cli::command(), "", &mut verbs);
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, paths)| *paths).copied().collect();
        verbs.sort();
        grouped.sort_unstable();
        assert_eq!(verbs, grouped);
    }

    #[test]
    fn every_verb_has_two_examples_that_parse() {
        let whole = command();
        let mut verbs = Vec::new();
        leaves(&whole, "", &mut verbs);
        for verb in verbs.iter().map(String::as_str).chain(["node"]) {
            let sub = at_path(&whole, verb).expect("it was listed");
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> =
                help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert_eq!(examples.len(), 2, "{verb}: {help}");
            for example in examples {
                assert!(example.contains(verb), "{verb}: {example}");
                let parsed = parse(&words(example));
                assert!(parsed.is_ok(), "{example}: {parsed:?}");
            }
        }
    }

    #[test]
    fn bad_slots_are_named() {
        for (bad, why) in [
            ("16384", "slots '16384' are out of range"),
            ("1300-1200", "slots '1300-1200' are reversed"),
            ("-1", "slots '-1' are malformed"),
            ("1-2-3", "slots '1-2-3' are malformed"),
            ("abc", "slots 'abc' are malformed"),
            ("5,", "empty piece"),
            ("''", "<SLOTS>"),
        ] {
            for verb in ["assign", "move"] {
                let text = mistake(&format!("slotctl {verb} {bad} node-a"));
                let help = format!("slotctl {verb} --help");
                assert!(text.contains(why) && text.contains(&help), "{bad}: {text}");
            }
        }
    }

    #[test]
    fn mistakes_name_the_argument() {
        for (line, why) in [
            ("slotctl", "no verb given"),
            ("slotctl node", "no verb given"),
            ("slotctl migrate 1 node-a", "unrecognized subcommand 'migrate'"),
            ("slotctl move", "<SLOTS> <NODE>"),
            ("slotctl move 1", "<NODE>"),
            ("slotctl cancel", "<ID>"),
            ("slotctl statu", "tip: some similar subcommands exist: 'stale', 'status'"),
            ("slotctl node ad h:1", "'ad'"),
            ("slotctl assign", "<SLOTS> <NODE>"),
            ("slotctl assign 1", "<NODE>"),
            ("slotctl assign 1 node-a more", "'more'"),
            ("slotctl status --jsno", "'--jsno'"),
            ("slotctl status --timeout 0", "'--timeout <TIME>': a time is like"),
            ("slotctl status --lag 3s", "--check"),
            ("slotctl status --server nowhere", "HOST:PORT"),
            ("slotctl status --server :7001", "the host is missing"),
            ("slotctl node weight node-a 1000001", "'1000001'"),
            ("slotctl node weight node-a -1", "'-1'"),
            ("slotctl node add 10.0.0.5:60000", "over 65535"),
            ("slotctl history --count 0", "'0'"),
            ("slotctl wait-healthy --nodes 0", "'0'"),
            ("slotctl completions tcsh", "'tcsh'"),
            ("slotctl status --color pink", "'pink'"),
        ] {
            let text = mistake(line);
            assert!(text.contains(why), "{line}: {text}");
        }
    }

    #[test]
    fn a_key_may_look_like_a_flag() {
        assert!(parse(&words("slotctl explain -1")).is_ok());
        assert!(parse(&words("slotctl explain -- --json")).is_ok());
    }

    #[test]
    fn topics_are_verbs_and_exit_codes() {
        let topic =
            |text: &str| topic(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert!(topic("").expect("all").contains("After a disaster:"));
        assert!(topic("node add").expect("a verb").contains("slotctl node add 10.0.0.5:7001@7501"));
        assert!(topic("exit-codes").expect("codes").contains("  3  unfinished"));
        let failure = topic("node fly").expect_err("no such verb");
        assert!(failure.text.starts_with("no help on 'node fly'"), "{}", failure.text);
    }
}
