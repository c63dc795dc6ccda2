//! The page on slotctl in the manner of man: made from the command line's declarations.
//!
//! Not `--help`, which a terminal shows. Invariant: `client/docs/slotctl.md` is what [`page`]
//! returns (a test holds it).

use std::fmt::Write;

use clap::Command;

use super::help::{self, GROUPS};
use crate::exit;

/// Width of the help texts in the page, characters: the width of the project's lines.
const PAGE_COLUMNS: usize = 96;

const INTRODUCTION: &str = "\
# slotctl

Made from the declarations in `src/bin/slotctl/args`; `UPDATE_EXPECT=1` rewrites this page.

slotctl looks at a cluster of slotd and changes it. It talks to any node over the clients' port, and
learns the other nodes from it; when one does not answer it goes on with another, and says so on
standard error. The node that `--server` or `SLOTCTL_SERVER` names is asked first; without them
127.0.0.1:7001 and then 127.0.0.1:6379. Nodes are given by name, by id, by the beginning of an id
(at least 4 characters, if no other id begins so) or by HOST:PORT.

```text
slotctl [OPTIONS] VERB ...
```
";

const ENVIRONMENT: &str = "
## Environment

| variable | |
|---|---|
| `SLOTCTL_SERVER` | nodes to begin with, as `--server` |
| `SLOTCTL_PASSWORD` | the password, where `--password-file` is not given |
| `NO_COLOR` | if set and not empty: no color with `--color auto` |

A password is never taken from the command line, which other users of a machine can read.

## Questions

`move`, `cancel`, `drain`, `undo`, `node remove`, `node lost`, `restore` and `recover` show what
they will do and ask first, on a terminal only. Elsewhere, and with `--json`, they are refused
(exit 1) unless `--yes` is given. What cannot be undone (`node lost --accept-loss` of a node that
has the only copy of slots, and `recover`) wants the node's name or the cluster's id typed, or given
as `--confirm`; `--yes` is not enough.

## JSON

With `--json` each verb prints one JSON value on one line of standard output; what is watched
prints an event a line. Fields may be added in
later versions and are not renamed or taken away; what is not known is `null`. An error is
`{\"error\":\"a sentence\",\"exit\":N}`, on standard output, too.

- `status`, `wait-healthy`: an object. `healthy`; `problems` and `notes`, sentences; `quorum` with
  `voters`, `reachable`, `possible`, `text`; `status`, the newest view (`SLOTD STATUS`); `nodes`,
  for each `id`, `name`, `answered`, `error`, and by its own word `generation`, `table_version`,
  `leader`, `has_quorum`.
- `nodes`: an array of the nodes of `SLOTD STATUS`, each with `answered` and `error`.
- `slots`: the array of `SLOTD SLOTS`. `explain`: the object of `SLOTD EXPLAIN`. `history`: the
  array of `SLOTD HISTORY`.
- `stale`: an array of `node`, `error`, and `stale`, the object of `SLOTD STALE`.
- `node ...`, `assign`, `recover`: an object of `table_version`, `changed`, `text`, and `refused`,
  an array of `slots` and `why`.
- `backup`: an object of `dir`, `cluster`, `slots`, `slots_with_keys`, `keys`, `bytes`, `seconds`.
- `restore`: an object of `dir`, `cluster`, `into`, `slots`, `slots_with_keys`, `keys`, `bytes`,
  `restored`, `expired`, `kept`, `seconds`; with `--check` without `into` and what follows `bytes`.
- `move`, `drain`, `undo`, `moves --follow`: an event a line, an object whose `event` says which.
  - `plan`, a line for each node that takes slots: `to`, `to_name`, `slots`, `slot_count`, `keys`,
    `bytes`, `eta_s`, and `sources`, an array of `node`, `name`, `slots`, `slot_count`, `keys`,
    `bytes`, `rate`, `error`.
  - `begun`: the object of `SLOTD MOVE`. With `--detach` it is the last line.
  - `progress`, once a second: `moves` (ids), `slots`, `slots_moved`, `keys`, `keys_moved`, `bytes`,
    `bytes_sent`, `rate`, `eta_s`, `lag`, `longest_pause_us`, `copying`, `joining`, `sealed`,
    `blocked` and `silent` (sentences), `seconds`. The last one before an error says what moved.
  - `ended`: `outcome` (`moved`, `cancelled`, `lost`, or `nothing` where there was nothing to do);
    `moves`, an array of `id`, `to`, `to_name`, `slots`, `moved`, `outcome`, `by` and `stayed`
    (`owner`, `slots`); `refused`, an array of `slots` and `why`; `keys`, `bytes`,
    `longest_pause_us`, `seconds`; `table_version`, and `nodes`, how many have it; `behind`, the
    names of those that do not; `unreached`, an array of `node`, `name`, `error`.
- `moves`: an array of `id`, `to`, `to_name`, `left`, `sources`, and `here`, what each node says of
  what it gives away. `cancel`: as `assign`.
- `demo stale-writer`: an object of `slotd` and `unchecked`, each with `written`, `refused`,
  `acknowledged`, `misplaced`, `not_found`; `stale_writes`, `refused_otherwise`,
  `refusals_counted_by_nodes`, `served_by_strangers`, `log_lines`, `faults`, `nodes`.
- `completions`, `help`: an object with `text`.
";

/// The page, as markdown.
pub(crate) fn page() -> String {
    let mut whole = help::command().term_width(PAGE_COLUMNS);
    // Each verb's section would repeat the options of all.
    whole = whole.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    whole.build();
    let mut text = String::from(INTRODUCTION);
    let _ = write!(text, "\n## Exit codes\n\n{}", exit::table_markdown());
    let _ = write!(text, "\n## Options of every verb\n\n```text\n{}```\n", options());
    for (group, paths) in GROUPS {
        let _ = write!(text, "\n## {group}\n");
        for path in paths {
            let section = help::at_path(&whole, path).map(verb).unwrap_or_default();
            let _ = write!(text, "\n### {path}\n\n```text\n{section}```\n");
        }
    }
    text.push_str(ENVIRONMENT);
    text
}

fn verb(command: &Command) -> String {
    trimmed(&command.clone().render_long_help().to_string())
}

fn options() -> String {
    let mut whole = help::command().term_width(PAGE_COLUMNS).help_template("{options}");
    trimmed(&whole.render_long_help().to_string())
}

/// Without blanks at the ends of lines, and with one end.
fn trimmed(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_declarations_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/slotctl.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, page()).expect("the page can be written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "slotctl.md is old: run the tests with UPDATE_EXPECT=1");
    }
}
