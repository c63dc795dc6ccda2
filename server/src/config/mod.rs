//! The options of a node: read at start, asked and changed by CONFIG, written back by REWRITE.
//!
//! Every option is declared once (`options/`); flag, file directive, CONFIG, documentation and
//! default all come from that one declaration. This module touches no file, socket or clock: the
//! caller reads the file, opens ports and writes the rewritten text.
//!
//! Invariant: what CONFIG GET says, what `Live` holds and what REWRITE writes are one value; a
//! CONFIG SET changes all of its options or none.

mod declaration;
mod docs;
mod line;
pub mod live;
mod options;
mod pattern;
mod rewrite;
mod special;
mod start;
mod value;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use declaration::{Change, Declaration};
pub use docs::{docs, help};
pub use live::Live;
pub use special::OutputLimit;
pub use start::{CLUSTER_PORT_OFFSET, MAX_FILE_BYTES, Start, StartError};
use value::Value;

/// What an edge answers when asked to carry out a changed option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Applied {
    /// This option is not carried out by an edge.
    NotMine,
    /// Done: the new value is in force.
    Done,
    /// Refused, with the sentence for the client; the old value is still in force.
    Refused(String),
}

/// The edge that carries out changes which need more than a number in `Live`: listening on
/// another port, another log level. Called with the option's name and its new value.
pub type Apply = Arc<dyn Fn(&'static str, &str) -> Applied + Send + Sync>;

/// One option's value as this node holds it.
#[derive(Clone, Debug)]
struct Held {
    value: Value,
    /// What an edge made of the value ("0 = choose yourself"); shown by CONFIG GET.
    resolved: Option<String>,
}

impl Held {
    fn shown(&self) -> &str {
        self.resolved.as_deref().unwrap_or(&self.value.text)
    }
}

/// The options of one node. Shared by `Arc`; locks inside, never held while an edge works on IO
/// that a request waits for.
pub struct Config {
    /// In the order of `options::all()`.
    held: RwLock<Vec<Held>>,
    live: Live,
    apply: RwLock<Option<Apply>>,
    /// Serialises CONFIG SET against itself, edges included, so that the port listened on is the
    /// port told. Nothing else takes it.
    changing: Mutex<()>,
}

impl Config {
    /// A node's options with these values, in the order of `options::all()`.
    fn with_values(values: Vec<Value>) -> Config {
        let live = Live::default();
        for (declaration, value) in options::all().zip(&values) {
            declaration.publish(&live, value);
        }
        let held = values.into_iter().map(|value| Held { value, resolved: None }).collect();
        Config { held: RwLock::new(held), live, apply: RwLock::new(None), changing: Mutex::new(()) }
    }

    /// The numbers the hot path reads.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Names the edge that carries out changes at run time. Without one, options that need it
    /// can only be set to the value they have.
    pub fn carried_out_by(&self, apply: Apply) {
        *self.apply.write() = Some(apply);
    }

    /// Tells what an edge made of an option at start (`threads 0` = 4 workers, `dir .` = its
    /// full path). Shown by CONFIG GET.
    pub fn resolve(&self, name: &str, shown: &str) {
        let at = position(name);
        self.held.write()[at].resolved = Some(shown.to_owned());
    }

    /// The text of an option by its declared name or alias, as CONFIG GET shows it.
    pub fn text(&self, name: &str) -> String {
        self.held.read()[position(name)].shown().to_owned()
    }

    /// The number behind an option: 0 and 1 for no and yes, bytes for sizes, the place in the
    /// list of words for a choice.
    pub fn number(&self, name: &str) -> i128 {
        self.held.read()[position(name)].value.number
    }

    /// CONFIG GET of one pattern: pairs of name and value. Aliases are options of their own;
    /// hidden options answer to their exact name only.
    pub fn get(&self, pattern: &str) -> Vec<(&'static str, String)> {
        self.get_all(&[pattern])
    }

    /// CONFIG GET of several patterns: each name once. A secret that only a start can set is not
    /// shown: no client needs it, and no tool could set it back.
    pub fn get_all(&self, patterns: &[&str]) -> Vec<(&'static str, String)> {
        let held = self.held.read();
        let mut found = Vec::new();
        for (declaration, held) in options::all().zip(held.iter()) {
            for name in declaration.names() {
                if patterns.iter().any(|pattern| answers_to(declaration, name, pattern)) {
                    let is_kept = declaration.secret && declaration.change == Change::Startup;
                    let text = match held.shown() {
                        shown if is_kept && !shown.is_empty() => "(hidden)",
                        shown => shown,
                    };
                    found.push((name, text.to_owned()));
                }
            }
        }
        found
    }

    /// CONFIG SET: all of them or none. The error is the whole reply without its leading `-`.
    pub fn set(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), String> {
        let _one_at_a_time = self.changing.lock();
        let wanted = self.wanted(pairs)?;
        let changed = self.parsed(&wanted)?;
        self.carry_out(&changed)?;
        let mut held = self.held.write();
        for Changed { at, declaration, value } in changed {
            declaration.publish(&self.live, &value);
            held[at] = Held { value, resolved: None };
        }
        self.live.changed();
        Ok(())
    }

    /// The options named, refusals first: unknown, not changeable, twice.
    fn wanted<'a>(&self, pairs: &[(&'a [u8], &'a [u8])]) -> Result<Vec<Wanted<'a>>, String> {
        let mut wanted: Vec<Wanted> = Vec::with_capacity(pairs.len());
        for (name, text) in pairs {
            let name = String::from_utf8_lossy(name);
            let Some((at, declaration)) = options::find(&name) else {
                return Err(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                ));
            };
            match declaration.change {
                // Tools write back what they read: the value it has changes nothing.
                Change::Startup if self.held.read()[at].shown().as_bytes() == *text => continue,
                Change::Startup => return Err(failed(&name, "can't set immutable config")),
                Change::Protected if self.text("enable-protected-configs") != "yes" => {
                    return Err(failed(&name, "can't set protected config"));
                }
                Change::Protected | Change::Runtime | Change::Edge(_) => {}
            }
            if wanted.iter().any(|earlier| earlier.at == at) {
                return Err(failed(&name, "duplicate parameter"));
            }
            wanted.push(Wanted { at, declaration, text });
        }
        Ok(wanted)
    }

    fn parsed(&self, wanted: &[Wanted<'_>]) -> Result<Vec<Changed>, String> {
        let held = self.held.read();
        let mut changed = Vec::with_capacity(wanted.len());
        for Wanted { at, declaration, text } in wanted {
            let text = std::str::from_utf8(text)
                .map_err(|_| failed(declaration.name, "argument must be valid UTF-8"))?;
            let value = declaration
                .parse_set(text, &held[*at].value)
                .map_err(|error| failed(declaration.name, &error.for_client()))?;
            changed.push(Changed { at: *at, declaration, value });
        }
        Ok(changed)
    }

    /// Has the edge carry out what changed; on a refusal those already done are taken back.
    fn carry_out(&self, changed: &[Changed]) -> Result<(), String> {
        let apply = self.apply.read().clone();
        let before: Vec<String> = {
            let held = self.held.read();
            changed.iter().map(|c| held[c.at].shown().to_owned()).collect()
        };
        let ask = |name, text: &str| apply.as_ref().map_or(Applied::NotMine, |a| a(name, text));
        let mut done: Vec<usize> = Vec::new();
        for (i, Changed { declaration, value, .. }) in changed.iter().enumerate() {
            if value.text == before[i] {
                continue;
            }
            let reason = match (ask(declaration.name, &value.text), &declaration.change) {
                (Applied::Done, _) => {
                    done.push(i);
                    continue;
                }
                (Applied::Refused(reason), _) => reason,
                (Applied::NotMine, Change::Edge(reason)) => (*reason).to_owned(),
                (Applied::NotMine, _) => continue,
            };
            for i in done.into_iter().rev() {
                ask(changed[i].declaration.name, &before[i]);
            }
            return Err(failed(declaration.name, &reason));
        }
        Ok(())
    }

    /// CONFIG REWRITE: the new text of the configuration file, from its old text. Comments and
    /// order stay; options not named there are added at the end when they differ from the
    /// default. The caller reads and writes the file.
    pub fn rewrite(&self, old_text: &str) -> String {
        self.rewritten(old_text, rewrite::Extent::Changed)
    }

    /// The same for a node started without a file: only options that can change while it runs are
    /// kept, the others are the command line's.
    pub fn rewrite_kept(&self, old_text: &str) -> String {
        let held = self.held.read();
        let values = options::all().zip(held.iter().map(|held| &held.value));
        let values = values.filter(|(declaration, _)| declaration.change.is_at_run_time());
        rewrite::rewrite(old_text, values, rewrite::Extent::Changed)
    }

    /// Where those are kept.
    pub fn kept_file(&self) -> PathBuf {
        PathBuf::from(self.text("dir")).join(start::KEPT_FILE)
    }

    /// DEBUG CONFIG-REWRITE-FORCE-ALL: like [`Config::rewrite`], with every option named.
    pub fn rewrite_all(&self, old_text: &str) -> String {
        self.rewritten(old_text, rewrite::Extent::Everything)
    }

    fn rewritten(&self, old_text: &str, extent: rewrite::Extent) -> String {
        let held = self.held.read();
        let values = options::all().zip(held.iter().map(|held| &held.value));
        rewrite::rewrite(old_text, values, extent)
    }
}

struct Wanted<'a> {
    at: usize,
    declaration: &'static Declaration,
    text: &'a [u8],
}

struct Changed {
    at: usize,
    declaration: &'static Declaration,
    value: Value,
}

/// Whether the value of this option must not reach logs, SLOWLOG or MONITOR.
pub fn is_secret(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    options::find(&name).is_some_and(|(_, declaration)| declaration.secret)
}

fn position(name: &str) -> usize {
    options::find(name).expect("the server asks only for options it declares").0
}

fn failed(name: &str, reason: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

fn answers_to(declaration: &Declaration, name: &str, wanted: &str) -> bool {
    if !wanted.contains(['*', '?', '[']) {
        return name.eq_ignore_ascii_case(wanted);
    }
    !declaration.hidden && pattern::matches(wanted, name)
}

#[cfg(test)]
mod tests;
