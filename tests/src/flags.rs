//! Command lines of the probe programs: `--name value` pairs, `--switch`es and plain words.
//!
//! Not an option parser for people: one line of usage, unknown names refused.
//! Invariant: every flag given was asked for by the program, or `finish` refuses it.

use std::fmt::Display;
use std::str::FromStr;

/// The arguments of one program run, taken out one by one.
pub struct Flags {
    words: Vec<String>,
    usage: &'static str,
}

impl Flags {
    /// The arguments of this process, without its own name.
    pub fn from_env(usage: &'static str) -> Self {
        Self { words: std::env::args().skip(1).collect(), usage }
    }

    /// The value of `--name value`, or the default. Exits with code 2 if it does not parse.
    pub fn value<T: FromStr>(&mut self, name: &str, default: T) -> T {
        self.maybe(name).unwrap_or(default)
    }

    /// The value of `--name value` if it was given. Exits with code 2 if it does not parse.
    pub fn maybe<T: FromStr>(&mut self, name: &str) -> Option<T> {
        let at = self.words.iter().position(|word| word == name)?;
        if at + 1 >= self.words.len() {
            self.refuse(format_args!("{name} wants a value"));
        }
        let text = self.words.remove(at + 1);
        self.words.remove(at);
        match text.parse() {
            Ok(value) => Some(value),
            Err(_) => self.refuse(format_args!("{name}: cannot read `{text}`")),
        }
    }

    /// Whether the switch `--name` was given.
    pub fn switch(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| word == name);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// The next word that is not a flag. Take it before the flags' values are misread: first.
    pub fn word(&mut self, what: &str) -> String {
        if self.words.first().is_none_or(|word| word.starts_with("--")) {
            self.refuse(format_args!("{what} is missing"));
        }
        self.words.remove(0)
    }

    /// Refuses what is left over.
    pub fn finish(self) {
        if let Some(word) = self.words.first() {
            self.refuse(format_args!("unknown argument `{word}`"));
        }
    }

    /// Ends the program with code 2: one line, then the usage.
    pub fn refuse(&self, why: impl Display) -> ! {
        eprintln!("{why}\nusage: {}", self.usage);
        std::process::exit(2)
    }
}
