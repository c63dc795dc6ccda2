//! The style that a machine can check: sizes, headers, words, and the arrows between the cores.
//!
//! Each finding names the file, the line and the reason. Not here: what clippy or rustc check.
//! Invariant: a rule has no list of exceptions; what may differ is part of the rule.

use std::fs;
use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 600;
const MAX_LINE_CHARS: usize = 100;
const MAX_HEADER_LINES: usize = 12;
const MAX_FUNCTION_LINES: usize = 70;
/// A type named so says nothing of what it is.
const BANNED_SUFFIXES: [&str; 6] = ["Manager", "Helper", "Util", "Service", "Info", "Data"];
/// Where `unsafe` may stand, each argued in place: the key table, the edges, and the binary's
/// setting of its allocator; and the library that a test preloads.
const UNSAFE_HOMES: [&str; 4] =
    ["server/src/store/table", "server/src/io", "server/src/main.rs", "tests/shim/src"];
/// Folders that are not ours to judge: built, fetched or found by fuzzing.
const SKIPPED: [&str; 7] = ["target", ".git", ".cache", "artifacts", "coverage", "corpus", "seeds"];
const TEXT_KINDS: [&str; 8] = ["rs", "md", "toml", "py", "sh", "yaml", "yml", "txt"];

/// What each module of the server may use of the others; its own parts are always allowed.
/// A name with `::` allows that part only, `*` everything. `server/src/lib.rs` draws the picture.
const ARROWS: [(&str, &[&str]); 22] = [
    ("resp", &["store::number"]),
    ("gate", &[]),
    ("metrics", &[]),
    ("store", &[]),
    ("config", &["store::limits", "store::number"]),
    ("slot", &["store", "resp", "gate", "config", "metrics"]),
    ("vital", &[]),
    ("stream", &["slot", "store"]),
    ("control", &["slot", "config", "metrics", "peer", "vital"]),
    ("peer", &["config", "metrics"]),
    ("persist", &["config", "control::startup", "slot", "stream"]),
    ("replication", &[]),
    ("migration", &["replication"]),
    ("command", &["control", "slot", "stream", "store", "resp", "gate", "config", "metrics"]),
    ("session", &["command", "control", "slot", "store", "resp", "gate", "config", "metrics"]),
    ("expiry", &["command", "slot", "store", "config", "metrics"]),
    ("announce", &["config"]),
    ("io", &["*"]),
    ("node", &["*"]),
    ("main", &["*"]),
    ("testing", &["*"]),
    ("manual", &[]),
];

struct Source {
    /// Relative to the workspace, with `/`.
    name: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.name.ends_with(".rs")
    }

    /// The lines before the tests at the end, comments cut off, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        lines.enumerate().map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("")))
    }
}

#[test]
fn the_workspace_is_tidy() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace");
    let mut sources = Vec::new();
    collect(root, root, &mut sources);
    assert!(sources.iter().any(|source| source.name == "server/src/lib.rs"), "nothing was read");
    let findings: Vec<String> = sources.iter().flat_map(judge).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

fn judge(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let mut say =
        |line: usize, why: String| findings.push(format!("{}:{line}: {why}", source.name));
    machine_paths(source, &mut say);
    if source.is_rust() {
        sizes(source, &mut say);
        header(source, &mut say);
        type_names(source, &mut say);
        unsafe_words(source, &mut say);
        function_sizes(source, &mut say);
        arrows(source, &mut say);
    }
    findings
}

type Say<'a> = dyn FnMut(usize, String) + 'a;

fn sizes(source: &Source, say: &mut Say<'_>) {
    let lines = source.text.lines().count();
    if lines > MAX_FILE_LINES {
        say(lines, format!("{lines} lines: a file of over {MAX_FILE_LINES} hides a second idea"));
    }
    for (at, line) in source.text.lines().enumerate() {
        let width = line.chars().count();
        if width > MAX_LINE_CHARS {
            say(at + 1, format!("{width} characters: over {MAX_LINE_CHARS} nobody reads the end"));
        }
    }
}

fn header(source: &Source, say: &mut Say<'_>) {
    let lines = source.text.lines().take_while(|line| line.starts_with("//!")).count();
    if lines == 0 {
        say(1, "no `//!`: a file opens with what it is, what it is not, its invariant".into());
    }
    // The maps of crates may be longer: they hold the picture of the whole.
    if lines > MAX_HEADER_LINES && !source.name.ends_with("lib.rs") {
        say(
            1,
            format!("a header of {lines} lines; {MAX_HEADER_LINES} say it, the manual the rest"),
        );
    }
}

fn type_names(source: &Source, say: &mut Say<'_>) {
    for (at, line) in source.code() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let declares =
            words.any(|word| matches!(word, "struct" | "enum" | "trait" | "union" | "type"));
        let name = words.find(|word| !word.is_empty()).unwrap_or("");
        let suffix = BANNED_SUFFIXES.iter().find(|suffix| name.ends_with(*suffix));
        if let (true, Some(suffix)) = (declares, suffix) {
            say(at, format!("`{name}`: the suffix {suffix} says nothing of what it is"));
        }
    }
}

fn unsafe_words(source: &Source, say: &mut Say<'_>) {
    if UNSAFE_HOMES.iter().any(|home| source.name.starts_with(home)) {
        return;
    }
    for (at, line) in source.code() {
        let bare = outside_quotes(line);
        if bare.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe") {
            say(at, format!("`unsafe` lives in {} only", UNSAFE_HOMES.join(" and ")));
        }
    }
}

/// Functions as rustfmt lays them out: from `fn` to the brace of the same indent.
fn function_sizes(source: &Source, say: &mut Say<'_>) {
    let mut open: Option<(usize, String)> = None;
    for (at, line) in source.code() {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let words: Vec<_> = line.split_whitespace().take(5).collect();
        let starts = words.contains(&"fn") && !line.trim_end().ends_with([';', '}']);
        match &open {
            Some((start, outer)) if line.trim_end() == format!("{outer}}}") => {
                let length = at - start + 1;
                if length > MAX_FUNCTION_LINES {
                    say(
                        *start,
                        format!("a function of {length} lines; {MAX_FUNCTION_LINES} is all"),
                    );
                }
                open = None;
            }
            None if starts => open = Some((at, indent)),
            _ => {}
        }
    }
}

fn machine_paths(source: &Source, say: &mut Say<'_>) {
    // Put together here so that this file does not name them itself.
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    for (at, line) in source.text.lines().enumerate() {
        if let Some(path) = paths.iter().find(|path| line.contains(*path)) {
            say(at + 1, format!("`{path}`: a path of one machine"));
        }
    }
}

fn arrows(source: &Source, say: &mut Say<'_>) {
    // A module's tests in files of their own are as free as those at a file's end.
    if source.name.ends_with("/tests.rs") || source.name.contains("/tests/") {
        return;
    }
    let Some(module) = module_of(&source.name) else { return };
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
        return say(
            1,
            format!("module `{module}` has no row in the arrows of tests/tests/tidy.rs"),
        );
    };
    for (at, used) in crate_paths(source) {
        let first = used.split("::").next().unwrap_or("");
        let fine = |name: &&str| {
            *name == "*"
                || used == *name
                || used.starts_with(&format!("{name}::"))
                || first == *name
        };
        if first != module && !allowed.iter().any(fine) {
            let may = if allowed.is_empty() { "nothing".into() } else { allowed.join(", ") };
            say(at, format!("`{module}` uses `{used}`; it may use {may} (arrows go one way)"));
        }
    }
}

/// `server/src/store/list.rs` is of `store`; `lib.rs` draws the map and is of no module.
fn module_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("server/src/")?;
    let module = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
    (module != "lib").then_some(module)
}

/// Every path behind `crate::`, a braced group taken apart at its first level.
fn crate_paths(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let code: Vec<(usize, &str)> = source.code().collect();
    for (index, (at, line)) in code.iter().enumerate() {
        for (start, marker) in line.match_indices("crate::") {
            // `$crate::` and `some_crate::` end with the same letters.
            let before = line[..start].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &line[start + marker.len()..];
            if let Some(group) = rest.strip_prefix('{') {
                let mut whole = group.to_owned();
                let more = code[index + 1..].iter().map(|(_, line)| line.trim());
                for next in more {
                    if whole.contains(';') {
                        break;
                    }
                    whole.push_str(next);
                }
                found.extend(group_members(&whole).into_iter().map(|member| (*at, member)));
            } else {
                found.push((*at, path_at(rest)));
            }
        }
    }
    found
}

fn group_members(text: &str) -> Vec<String> {
    let mut members = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                members.push(path_at(text[start..at].trim()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    members.retain(|member| !member.is_empty());
    members
}

fn path_at(text: &str) -> String {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    text[..end.unwrap_or(text.len())].trim_end_matches(':').to_owned()
}

fn outside_quotes(line: &str) -> String {
    line.split('"').step_by(2).collect()
}

fn collect(root: &Path, dir: &Path, sources: &mut Vec<Source>) {
    let entries = fs::read_dir(dir).expect("a folder of the workspace can be listed");
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        // A link may lead out of the workspace, or back into it.
        if SKIPPED.contains(&name) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, sources);
            continue;
        }
        let kind = path.extension().and_then(|kind| kind.to_str());
        // Scripts without a suffix are text, too; what is not UTF-8 is no source.
        if kind.is_none_or(|kind| TEXT_KINDS.contains(&kind)) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let relative = path.strip_prefix(root).expect("it lies below the root");
            let name = relative.to_string_lossy().replace('\\', "/");
            sources.push(Source { name, text });
        }
    }
}

fn findings_in(name: &str, text: &str) -> String {
    judge(&Source { name: name.into(), text: text.into() }).join("\n")
}

#[test]
fn every_rule_finds_what_it_forbids() {
    let long = format!("//! x\n// {}\n", "x".repeat(100));
    let high = format!("//! x\n{}", "\n".repeat(600));
    let function = format!("//! x\nfn f() {{\n{}}}\n", "    g();\n".repeat(69));
    for (name, text, reason) in [
        ("slots/src/a.rs", long.as_str(), "nobody reads"),
        ("slots/src/a.rs", high.as_str(), "second idea"),
        ("slots/src/a.rs", function.as_str(), "a function of 71 lines"),
        ("slots/src/a.rs", "fn f() {}\n", "opens with"),
        ("slots/src/a.rs", "//! x\npub struct KeyManager;\n", "suffix Manager"),
        ("server/src/slot/a.rs", "//! x\nfn f() { unsafe { g() } }\n", "lives in"),
        ("docs.md", concat!("see /wo", "rk/x\n"), "one machine"),
        ("server/src/store/a.rs", "//! x\nuse crate::slot::Room;\n", "`store` uses `slot::Room`"),
        (
            "server/src/resp/a.rs",
            "//! x\nuse crate::{\n    resp::A,\n    store::B,\n};\n",
            "store::B",
        ),
        ("server/src/config.rs", "//! x\nfn f() { crate::store::table::g() }\n", "config"),
        ("server/src/session/a.rs", "//! x\nuse crate::io::net;\n", "io::net"),
        ("server/src/novel/a.rs", "//! x\n", "no row"),
    ] {
        let found = findings_in(name, text);
        assert!(found.contains(reason), "{name} {text:?} gave {found:?}, not {reason:?}");
    }
}

#[test]
fn no_rule_finds_what_is_allowed() {
    for (name, text) in [
        ("server/src/config.rs", "//! x\nuse crate::store::limits::Limits;\n"),
        ("server/src/store/table/a.rs", "//! x\nfn f() { unsafe { g() } }\n"),
        ("server/src/slot/a.rs", "//! x\nuse crate::{gate::Tag, slot::{A, B}, store};\n"),
        ("server/src/slot/a.rs", "//! x\n// unsafe stays elsewhere: crate::io::net\n"),
        ("server/src/resp/a.rs", "//! x\n#[cfg(test)]\nmod tests { use crate::store; }\n"),
        ("slots/src/a.rs", "//! x\n#![deny(unsafe_code)]\nstruct Information;\n"),
        ("server/src/node.rs", "//! x\nuse crate::io::net;\n"),
    ] {
        assert_eq!(findings_in(name, text), "", "{name} {text:?}");
    }
}
