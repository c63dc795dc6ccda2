//! The commands in words: the manual's chapter, made from the command table.
//!
//! Not COMMAND DOCS (`families/command_cmd`), which clients read.
//!
//! Invariant: `manual/commands.md` is what [`docs`] returns (a test holds it).

use std::fmt::Write;

use crate::command::families::command_cmd;
use crate::command::registry::Entry;
use crate::command::{Group, registry};

/// Headings of the groups, in the order of the manual.
const GROUPS: [(Group, &str); 12] = [
    (Group::String, "Strings"),
    (Group::Bitmap, "Bitmaps"),
    (Group::Hash, "Hashes"),
    (Group::List, "Lists"),
    (Group::Set, "Sets"),
    (Group::SortedSet, "Sorted sets"),
    (Group::Generic, "Keys of any type"),
    (Group::Transactions, "Transactions"),
    (Group::Scripting, "Scripts and functions"),
    (Group::Connection, "Connections"),
    (Group::Cluster, "Cluster"),
    (Group::Server, "Server"),
];

const INTRODUCTION: &str = "\
# Commands

Made from the command table (`command/families`); `UPDATE_EXPECT=1` rewrites this page.

*arity* counts the words of a request with the command's own; a negative number says \"at least\".
*since* is the Redis version that has the command first; of SLOTD it is the version of slotd.
*flags* are those of COMMAND INFO. Subcommands stand below their container. What a command does
otherwise than in Redis is in the chapter on differences; what this node answers is COMMAND DOCS.
";

/// The manual's chapter on commands, as markdown.
pub fn docs() -> String {
    let mut text = String::from(INTRODUCTION);
    for (group, heading) in GROUPS {
        let _ = write!(text, "\n## {heading}\n\n");
        text.push_str("| command | arity | since | flags | summary | complexity |\n");
        text.push_str("|---|---|---|---|---|---|\n");
        let mut entries: Vec<&Entry> = registry()
            .all()
            .map(|(_, entry)| entry)
            .filter(|entry| entry.command.group == group)
            .collect();
        // `config` before `config|get`, and both before `config2`.
        entries.sort_by_key(|entry| entry.full_name.split('|').collect::<Vec<_>>());
        entries.into_iter().for_each(|entry| text.push_str(&row(entry)));
    }
    text
}

fn row(entry: &Entry) -> String {
    let command = entry.command;
    let name = entry.full_name.replace('|', " ").to_ascii_uppercase();
    let flags = command_cmd::flags(command).join(" ");
    let (summary, complexity) = (cell(command.summary), cell(command.complexity));
    let (arity, since) = (command.arity, command.since);
    format!("| `{name}` | {arity} | {since} | {flags} | {summary} | {complexity} |\n")
}

/// Free text as a table's cell: nothing in it is taken for markdown or HTML.
fn cell(text: &str) -> String {
    let mut cell = String::new();
    for letter in text.trim_end_matches('.').chars() {
        if matches!(letter, '|' | '[' | ']' | '<' | '>' | '*' | '_') {
            cell.push('\\');
        }
        cell.push(letter);
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manuals_chapter_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/manual/commands.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, docs()).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == docs(), "commands.md is old: run the tests with UPDATE_EXPECT=1");
    }

    #[test]
    fn every_command_and_subcommand_has_its_row() {
        let rows = docs().lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, registry().len());
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(cell("A [b|c] <d> e*f_g."), r"A \[b\|c\] \<d\> e\*f\_g");
    }
}
