//! The options in words: the manual's chapter and `--help`, both made from the declarations.
//!
//! Invariant: `manual/options.md` is what [`docs`] returns (a test holds it).

use std::fmt::Write;

use super::declaration::{Change, Declaration};
use super::options::THEMES;

/// The manual's chapter on options, as markdown.
pub fn docs() -> String {
    let mut text = String::from(
        "# Options\n\n\
         Made from the declarations in `config/options`; `UPDATE_EXPECT=1` rewrites this page.\n\n\
         Each option is a flag (`--port 7001` or `--port=7001`), a line of the configuration file\n\
         named as the first argument (`port 7001`), and a name for CONFIG GET. Those marked \
         *runtime*\ncan be set by CONFIG SET and are kept by CONFIG REWRITE.\n\n\
         Options under *accepted* in a table do nothing in slotd: they are taken so that files \
         and tools\nmade for Redis work, and the text says why nothing follows from them.\n",
    );
    for (theme, declarations) in THEMES {
        let _ = write!(text, "\n## {theme}\n\n");
        text.push_str("| option | default | values | change | meaning |\n|---|---|---|---|---|\n");
        for declaration in declarations.iter().filter(|d| !d.hidden) {
            text.push_str(&row(declaration));
        }
    }
    text
}

fn row(declaration: &Declaration) -> String {
    let mut names = format!("`{}`", declaration.name);
    for alias in declaration.aliases {
        let _ = write!(names, ", `{alias}`");
    }
    let default = match declaration.default {
        "" => "none".to_owned(),
        default => format!("`{default}`"),
    };
    let change = match declaration.change {
        Change::Runtime => "runtime",
        Change::Startup => "start",
        Change::Protected => "runtime, protected",
        Change::Edge(_) => "runtime, if possible",
    };
    let values = declaration.kind.described();
    let mut meaning = declaration.summary.to_owned();
    if let Some(why) = declaration.compat {
        let _ = write!(meaning, " *Accepted*: {why}");
    }
    format!("| {names} | {default} | {values} | {change} | {meaning} |\n")
}

/// The text of `slotd --help`: the options that do something, one a line.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: slotd [FILE] [--option value...]...\n\
        \x20      slotd local [--help]   a cluster of several nodes on this machine\n\n\
         Starts one node. FILE holds lines of `option value`; flags overrule it.\n\
         With no cluster option the node owns all 16,384 slots; `--cluster-enabled yes` starts\n\
         an empty one.\n",
    );
    let mut accepted = 0;
    for (theme, declarations) in THEMES {
        let shown: Vec<&Declaration> =
            declarations.iter().filter(|d| !d.hidden && d.compat.is_none()).collect();
        accepted += declarations.iter().filter(|d| !d.hidden && d.compat.is_some()).count();
        if shown.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{theme}:\n");
        for declaration in shown {
            let default = match declaration.default {
                "" => String::new(),
                default => format!(" [{default}]"),
            };
            let name = declaration.name;
            let _ = writeln!(text, "  --{name:<32} {}{default}", declaration.summary);
        }
    }
    let _ = write!(text, "\n{accepted} more options of Redis are accepted and do nothing here.\n");
    text
}
