//! From the command line and the configuration file to the options of a node.
//!
//! Not the reading of a file (the caller's `read_file`) nor `--help` and `--version` (the
//! caller looks for those first).
//!
//! Invariant: a mistake is one line that names the option and, in a file, its line number.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slots::Endpoint;

use super::declaration::Declaration;
use super::value::{Kind, Value};
use super::{Config, line, options, special::Special};

/// Longest configuration file, in bytes: a hundred times a full one.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// The port for other nodes is the client port plus this, unless `cluster-port` is given.
pub const CLUSTER_PORT_OFFSET: u16 = 10_000;

/// The file in the data directory that CONFIG REWRITE writes on a node started without a file.
pub const KEPT_FILE: &str = "slotd.conf";

/// Directives of older Redis versions that files may still hold; they mean nothing today.
const RETIRED: [&str; 3] =
    ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// What a node starts with.
pub struct Start {
    /// All options.
    pub config: Arc<Config>,
    /// The configuration file that was named, for CONFIG REWRITE.
    pub file: Option<PathBuf>,
    /// What was read instead of one: options kept in the data directory (`KEPT_FILE`).
    pub kept: Option<PathBuf>,
    /// Port for clients.
    pub port: u16,
    /// Addresses to listen on; `-` before one means: go on without it if it is not there.
    pub bind: Vec<String>,
    /// Port for other nodes; 0 when `port` is 0.
    pub cluster_port: u16,
    /// Where the node keeps its files; created by the caller if missing.
    pub dir: PathBuf,
    /// Name of the node; empty = choose one.
    pub name: String,
    /// Worker threads; 0 = one per core. At least two run whatever this says.
    pub threads: usize,
    /// Whether the node starts without slots (`cluster-enabled yes`) instead of with all.
    pub starts_empty: bool,
    /// Where nodes of the cluster to join listen for nodes.
    pub seeds: Vec<Endpoint>,
    /// The data directory comes from a backup.
    pub restored: bool,
}

/// Where a mistake stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    CommandLine,
    Line { file: PathBuf, number: usize },
}

/// Why a node does not start. Its text is one line without the program's name; exit code 2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartError {
    option: Option<String>,
    place: Place,
    reason: String,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Place::Line { file, number } = &self.place {
            write!(f, "{}, line {number}: ", file.display())?;
        }
        if let Some(option) = &self.option {
            write!(f, "option '{}': ", option.escape_debug())?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for StartError {}

impl StartError {
    fn without_option(reason: impl Into<String>) -> StartError {
        StartError { option: None, place: Place::CommandLine, reason: reason.into() }
    }

    fn of(option: &str, reason: impl Into<String>) -> StartError {
        let option = Some(option.to_owned());
        StartError { option, place: Place::CommandLine, reason: reason.into() }
    }

    fn at(mut self, file: &Path, number: usize) -> StartError {
        self.place = Place::Line { file: file.to_owned(), number };
        self
    }
}

impl Config {
    /// Reads the arguments after the program's name: a file first, if one is named, else what an
    /// earlier CONFIG REWRITE kept in the data directory, if it did; then options that overrule
    /// it. The caller has the file read, `NotFound` meaning that there is none. `--port 7001`,
    /// `--port=7001` and `'--port 7001'` are the same; an option of several words takes all up to
    /// the next `--`.
    pub fn from_args<A: Into<OsString>>(
        args: impl Iterator<Item = A>,
        read_file: impl FnOnce(&Path) -> io::Result<String>,
    ) -> Result<Start, StartError> {
        let mut words = Vec::new();
        for (at, arg) in args.enumerate() {
            let arg: OsString = arg.into();
            words.push(arg.into_string().map_err(|arg| {
                let arg = arg.to_string_lossy().escape_debug().to_string();
                StartError::without_option(format!("argument {} is not UTF-8: '{arg}'", at + 1))
            })?);
        }
        let mut draft = Draft::of_defaults();
        let (file, flags) = match words.split_first() {
            Some((first, rest)) if !first.starts_with("--") => (Some(PathBuf::from(first)), rest),
            _ => (None, &words[..]),
        };
        let kept = match &file {
            Some(file) => {
                let text = read_file(file).map_err(|error| unreadable(file, &error))?;
                draft.take_file(file, &text)?;
                None
            }
            None => draft.take_kept(flags, read_file)?,
        };
        draft.take_flags(flags)?;
        draft.finish(file, kept)
    }
}

/// The options while they are being collected.
struct Draft {
    values: Vec<Value>,
    named: HashSet<usize>,
}

impl Draft {
    fn of_defaults() -> Draft {
        let values = options::all().map(Declaration::default_value).collect();
        Draft { values, named: HashSet::new() }
    }

    /// Takes what is kept in the data directory that the flags name, if there is anything.
    fn take_kept(
        &mut self,
        flags: &[String],
        read_file: impl FnOnce(&Path) -> io::Result<String>,
    ) -> Result<Option<PathBuf>, StartError> {
        let mut given = Draft::of_defaults();
        given.take_flags(flags)?;
        let dir = options::find("dir").map_or("", |(at, _)| &given.values[at].text);
        let file = Path::new(dir).join(KEPT_FILE);
        let text = match read_file(&file) {
            Ok(text) => text,
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(unreadable(&file, &error)),
        };
        self.take_file(&file, &text)?;
        if let Some(number) = text.lines().position(names_dir) {
            let reason = "is given on the command line only: this file lies in the data directory";
            return Err(StartError::of("dir", reason).at(&file, number + 1));
        }
        // Flags replace what is kept; nothing adds up from start to start.
        self.named.clear();
        Ok(Some(file))
    }

    fn take_file(&mut self, file: &Path, text: &str) -> Result<(), StartError> {
        if text.len() > MAX_FILE_BYTES {
            let reason = format!("'{}' is longer than {MAX_FILE_BYTES} bytes", file.display());
            return Err(StartError::without_option(reason));
        }
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            self.take_line(line).map_err(|error| error.at(file, at + 1))?;
        }
        Ok(())
    }

    fn take_line(&mut self, line: &str) -> Result<(), StartError> {
        let words = line::split(line)
            .map_err(|error| StartError::without_option(format!("{error} in '{line}'")))?;
        let Some((name, values)) = words.split_first() else { return Ok(()) };
        self.take(name, values)
    }

    fn take_flags(&mut self, args: &[String]) -> Result<(), StartError> {
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let Some(flag) = first.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
                let reason = format!("unexpected argument '{}', expected --option", first);
                return Err(StartError::without_option(reason));
            };
            rest = after;
            let (name, inline) = split_flag(flag)?;
            let mut values = inline;
            // The word right behind a bare name is its value even with dashes in front, unless
            // those make it an option.
            let mut takes_dashes = values.is_empty();
            while let Some((word, after)) = rest.split_first() {
                if word.starts_with("--") && (!takes_dashes || is_flag(word)) {
                    break;
                }
                values.push(word.clone());
                takes_dashes = false;
                rest = after;
            }
            self.take(&name, &values)?;
        }
        Ok(())
    }

    /// Takes one directive, refusals first.
    fn take(&mut self, name: &str, words: &[String]) -> Result<(), StartError> {
        let lower = name.to_ascii_lowercase();
        if RETIRED.contains(&lower.as_str()) {
            return Ok(());
        }
        if lower == "include" {
            return Err(StartError::of(name, "not supported: put all options into one file"));
        }
        let Some((at, declaration)) = options::find(&lower) else {
            return Err(StartError::of(name, "unknown option"));
        };
        if !declaration.kind.is_many_words() && words.len() != 1 {
            let reason = match words.len() {
                0 => "needs a value".to_owned(),
                n => format!("takes one value, got {n}"),
            };
            return Err(StartError::of(name, reason));
        }
        let base = match declaration.kind {
            // The first points named replace the default, more are added to them.
            Kind::Special(Special::SavePoints) if !self.named.contains(&at) => "",
            _ => &self.values[at].text,
        };
        let value = declaration.parse_start(words, base).map_err(|error| {
            let got = match declaration.secret {
                true => "(hidden)".to_owned(),
                false => words.join(" ").escape_debug().to_string(),
            };
            StartError::of(name, error.at_start(&got))
        })?;
        self.values[at] = value;
        self.named.insert(at);
        Ok(())
    }

    fn finish(self, file: Option<PathBuf>, kept: Option<PathBuf>) -> Result<Start, StartError> {
        let config = Config::with_values(self.values);
        let port = config.number("port") as u16;
        let cluster_port = match (config.number("cluster-port") as u16, port) {
            (0, 0) => 0,
            (0, port) => port.checked_add(CLUSTER_PORT_OFFSET).ok_or_else(|| {
                let most = u16::MAX - CLUSTER_PORT_OFFSET;
                let reason = format!("must be given when port is above {most}, got port {port}");
                StartError::of("cluster-port", reason)
            })?,
            (given, _) => given,
        };
        Ok(Start {
            file,
            kept,
            port,
            cluster_port,
            bind: config.text("bind").split_ascii_whitespace().map(str::to_owned).collect(),
            dir: config.text("dir").into(),
            name: config.text("name"),
            threads: config.number("threads") as usize,
            // Who joins brings no slots.
            starts_empty: config.number("cluster-enabled") == 1 || !config.text("join").is_empty(),
            seeds: config.text("join").split_ascii_whitespace().filter_map(options::seed).collect(),
            restored: config.number("restored") == 1,
            config: Arc::new(config),
        })
    }
}

fn unreadable(file: &Path, error: &io::Error) -> StartError {
    StartError::without_option(format!("cannot read '{}': {error}", file.display()))
}

/// There is no such file. A data directory that is no directory is told of when it is opened.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Does a line of a file set `dir`?
fn names_dir(text: &str) -> bool {
    let words = line::split(text.trim()).unwrap_or_default();
    words.first().is_some_and(|name| name.eq_ignore_ascii_case("dir"))
}

/// `name`, `name=value` or `name value...` of a flag without its dashes.
fn split_flag(flag: &str) -> Result<(String, Vec<String>), StartError> {
    let end = flag.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(flag.len());
    let (name, rest) = flag.split_at(end);
    let values = match rest.strip_prefix('=') {
        Some(value) => vec![value.to_owned()],
        None => line::split(rest).map_err(|error| StartError::of(name, error.to_string()))?,
    };
    Ok((name.to_owned(), values))
}

/// Whether a word with dashes names an option.
fn is_flag(word: &str) -> bool {
    let name = word.trim_start_matches("--");
    let end = name.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(name.len());
    options::find(&name[..end]).is_some()
}
