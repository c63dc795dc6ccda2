//! What is declared of an option: one value of this type is all there is to adding one.
//!
//! Not the list of them (`options/`).
//!
//! Invariant: a declaration's default is accepted by its own kind (a test holds it).

use super::line;
use super::live::Live;
use super::value::{Kind, Value, ValueError};

/// When an option may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// By CONFIG SET.
    Runtime,
    /// Only at start.
    Startup,
    /// By CONFIG SET, if `enable-protected-configs yes` was given.
    Protected,
    /// By CONFIG SET, when the edge concerned carries it out; else refused with this sentence.
    Edge(&'static str),
}

impl Change {
    /// Does CONFIG SET change it for good, so that it is worth keeping?
    pub(super) const fn is_at_run_time(&self) -> bool {
        matches!(self, Change::Runtime | Change::Protected)
    }
}

/// A rule beyond the kind's; the error is the sentence for the client.
type Rule = fn(&Value) -> Result<(), &'static str>;

/// One option.
pub struct Declaration {
    /// Redis's directive name where Redis has one.
    pub name: &'static str,
    /// Older names; options of their own to CONFIG GET.
    pub aliases: &'static [&'static str],
    /// What its text may be.
    pub kind: Kind,
    /// The text of its default.
    pub default: &'static str,
    /// When it may change.
    pub change: Change,
    /// One sentence for documentation and `--help`.
    pub summary: &'static str,
    /// Why it is accepted though it does nothing here (yet).
    pub compat: Option<&'static str>,
    /// Answers to its exact name only.
    pub hidden: bool,
    /// Never shown in logs, SLOWLOG or errors.
    pub secret: bool,
    check: Option<Rule>,
    live: Option<fn(&Live, &Value)>,
}

impl Declaration {
    /// An option changeable at run time, with nothing else to it.
    pub(super) const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        summary: &'static str,
    ) -> Declaration {
        Declaration {
            name,
            aliases: &[],
            kind,
            default,
            change: Change::Runtime,
            summary,
            compat: None,
            hidden: false,
            secret: false,
            check: None,
            live: None,
        }
    }

    pub(super) const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(super) const fn change(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    pub(super) const fn startup(self) -> Self {
        self.change(Change::Startup)
    }

    /// Accepted for the sake of files and tools that name it; does nothing here.
    pub(super) const fn compat(mut self, why: &'static str) -> Self {
        self.compat = Some(why);
        self
    }

    pub(super) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    pub(super) const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// A rule beyond the kind's.
    pub(super) const fn check(mut self, rule: Rule) -> Self {
        self.check = Some(rule);
        self
    }

    /// Where the hot path reads it.
    pub(super) const fn live(mut self, publish: fn(&Live, &Value)) -> Self {
        self.live = Some(publish);
        self
    }

    /// Its name and aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Its default as a value.
    pub(super) fn default_value(&self) -> Value {
        let words: Vec<&str> = match self.kind.is_many_words() {
            true => self.default.split_ascii_whitespace().collect(),
            false => vec![self.default],
        };
        // "Follow nobody" has no words that its kind would take.
        if self.default.is_empty() {
            return Value::default();
        }
        self.kind.parse(&words, "").expect("a test parses every default")
    }

    /// Reads the value of a CONFIG SET.
    pub(super) fn parse_set(&self, text: &str, now: &Value) -> Result<Value, ValueError> {
        use super::special::Special::{Replication, SavePoints};
        let base = match self.kind {
            Kind::Special(SavePoints) => "",
            _ => &now.text,
        };
        // What CONFIG GET says of a node that follows nobody must be accepted back.
        if matches!(self.kind, Kind::Special(Replication)) && text.is_empty() {
            return Ok(Value::default());
        }
        let words: Vec<&str> = match self.kind.is_many_words() {
            true if text.is_empty() => Vec::new(),
            true => text.split(' ').collect(),
            false => vec![text],
        };
        self.parse_words(&words, base)
    }

    /// Reads the words after its name in a file or on the command line.
    pub(super) fn parse_start(&self, words: &[String], base: &str) -> Result<Value, ValueError> {
        let split;
        let words = match words {
            [word] if self.kind.is_many_words() && !word.is_empty() => {
                split = line::split(word).map_err(|e| ValueError::Said(e.to_string()))?;
                &split
            }
            _ => words,
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.parse_words(&words, base)
    }

    fn parse_words(&self, words: &[&str], base: &str) -> Result<Value, ValueError> {
        let value = self.kind.parse(words, base)?;
        match self.check.map_or(Ok(()), |rule| rule(&value)) {
            Ok(()) => Ok(value),
            Err(sentence) => Err(ValueError::Said(sentence.to_owned())),
        }
    }

    /// Makes the value the one the hot path reads.
    pub(super) fn publish(&self, live: &Live, value: &Value) {
        if let Some(publish) = self.live {
            publish(live, value);
        }
    }
}
