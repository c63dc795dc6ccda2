//! Option values with rules of their own: save points, output limits, event classes and so on.
//!
//! Not the plain kinds (`value`).
//!
//! Invariant: each answers with a canonical text that parses to itself.

use super::value::{Value, ValueError, memory, whole};

/// The most addresses `bind` takes: more are a mistake, and each is a socket.
pub const MAX_BIND_ADDRESSES: usize = 16;

/// Longest host name a node may announce, in bytes (the DNS limit is 253).
pub const MAX_HOSTNAME_BYTES: usize = 255;

/// The composite values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    /// Pairs of seconds and changes.
    SavePoints,
    /// Class, hard limit, soft limit, soft seconds.
    OutputLimits,
    /// Three numbers from -2000 to 2000.
    OomScores,
    /// Letters that name event classes.
    EventClasses,
    /// Addresses to listen on.
    Addresses,
    /// Host and port, or `no one`.
    Replication,
    /// Numbers from 0 to 100.
    Percentiles,
    /// A host name or nothing.
    Hostname,
    /// A file name without a path.
    BaseName,
    /// A template for the process title.
    Title,
}

impl Special {
    pub(super) fn is_many_words(self) -> bool {
        use Special::*;
        matches!(
            self,
            SavePoints | OutputLimits | OomScores | Addresses | Replication | Percentiles
        )
    }

    pub(super) fn described(self) -> &'static str {
        match self {
            Special::SavePoints => "pairs of seconds and changes",
            Special::OutputLimits => "class, hard limit, soft limit, seconds; repeated",
            Special::OomScores => "three numbers, -2000 to 2000",
            Special::EventClasses => "letters of Ag$lshzxeKEtmdn",
            Special::Addresses => "up to 16 addresses",
            Special::Replication => "no one",
            Special::Percentiles => "numbers from 0 to 100",
            Special::Hostname => "host name",
            Special::BaseName => "file name without path",
            Special::Title => "text with {title} {listen-addr} {server-mode} and the like",
        }
    }
}

pub(super) fn parse(special: Special, words: &[&str], base: &str) -> Result<Value, ValueError> {
    match special {
        Special::SavePoints => save_points(words, base),
        Special::OutputLimits => output_limits(words, base),
        Special::OomScores => oom_scores(words),
        Special::EventClasses => event_classes(one(words)?),
        Special::Addresses => addresses(words),
        Special::Replication => replication(words),
        Special::Percentiles => percentiles(words),
        Special::Hostname => hostname(one(words)?),
        Special::BaseName => base_name(one(words)?),
        Special::Title => title(one(words)?),
    }
}

fn one<'a>(words: &[&'a str]) -> Result<&'a str, ValueError> {
    match words {
        [word] => Ok(word),
        _ => Err(ValueError::WordCount),
    }
}

fn said(sentence: &str) -> ValueError {
    ValueError::Said(sentence.to_owned())
}

fn is_nothing(words: &[&str]) -> bool {
    words.is_empty() || words == [""]
}

/// New points are added to `base`; no words or an empty one mean no points at all.
fn save_points(words: &[&str], base: &str) -> Result<Value, ValueError> {
    if is_nothing(words) {
        return Ok(Value::default());
    }
    let wrong = || said("Invalid save parameters");
    let mut text = base.to_owned();
    for pair in words.chunks(2) {
        let &[seconds, changes] = pair else { return Err(wrong()) };
        let seconds: i64 = seconds.parse().map_err(|_| wrong())?;
        let changes: i32 = changes.parse().map_err(|_| wrong())?;
        if seconds < 1 || changes < 0 {
            return Err(wrong());
        }
        let gap = if text.is_empty() { "" } else { " " };
        text.push_str(&format!("{gap}{seconds} {changes}"));
    }
    Ok(Value::of_text(text))
}

/// The output limits of one class of clients; 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutputLimit {
    /// Pending output over this many bytes cuts the client at once.
    pub hard_bytes: u64,
    /// Pending output over this many bytes for `soft_seconds` cuts the client.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: u64,
}

/// The classes in the order CONFIG GET shows them.
pub(super) const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

fn class_of(word: &str) -> Option<usize> {
    match word.to_ascii_lowercase().as_str() {
        "normal" => Some(0),
        "slave" | "replica" => Some(1),
        "pubsub" => Some(2),
        _ => None,
    }
}

/// Reads the canonical text back: the limits of normal clients, replicas, subscribers.
pub(super) fn limits_of(text: &str) -> [OutputLimit; 3] {
    let mut limits = [OutputLimit::default(); 3];
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    for group in words.chunks_exact(4) {
        let &[class, hard, soft, seconds] = group else { continue };
        if let Some(at) = class_of(class) {
            limits[at] = OutputLimit {
                hard_bytes: memory(hard).unwrap_or(0),
                soft_bytes: memory(soft).unwrap_or(0),
                soft_seconds: seconds.parse().unwrap_or(0),
            };
        }
    }
    limits
}

/// Classes not named keep their limits in `base`.
fn output_limits(words: &[&str], base: &str) -> Result<Value, ValueError> {
    let words = if is_nothing(words) { &[] } else { words };
    let mut limits = limits_of(base);
    if words.len() % 4 != 0 {
        return Err(said("Wrong number of arguments in buffer limit configuration."));
    }
    for group in words.chunks_exact(4) {
        let &[class, hard, soft, seconds] = group else { continue };
        let at = class_of(class)
            .ok_or_else(|| said("Invalid client class specified in buffer limit configuration."))?;
        let wrong =
            || said("Error in hard, soft or soft_seconds setting in buffer limit configuration.");
        let soft_seconds = seconds.parse::<i32>().ok().and_then(|s| u64::try_from(s).ok());
        limits[at] = OutputLimit {
            hard_bytes: memory(hard).ok_or_else(wrong)?,
            soft_bytes: memory(soft).ok_or_else(wrong)?,
            soft_seconds: soft_seconds.ok_or_else(wrong)?,
        };
    }
    let texts: Vec<String> = CLASSES
        .iter()
        .zip(limits)
        .map(|(class, l)| format!("{class} {} {} {}", l.hard_bytes, l.soft_bytes, l.soft_seconds))
        .collect();
    Ok(Value::of_text(texts.join(" ")))
}

fn oom_scores(words: &[&str]) -> Result<Value, ValueError> {
    if words.len() != 3 {
        return Err(ValueError::WordCount);
    }
    let mut texts = Vec::with_capacity(3);
    for word in words {
        match word.parse::<i32>() {
            Ok(score @ -2000..=2000) => texts.push(score.to_string()),
            _ => {
                return Err(said(
                    "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
                ));
            }
        }
    }
    Ok(Value::of_text(texts.join(" ")))
}

/// Letter and bit of each event class, in the order they are shown; `A` stands for `ALL`.
const EVENTS: [(char, u32); 14] = [
    ('g', 1 << 2),
    ('$', 1 << 3),
    ('l', 1 << 4),
    ('s', 1 << 5),
    ('h', 1 << 6),
    ('z', 1 << 7),
    ('x', 1 << 8),
    ('e', 1 << 9),
    ('t', 1 << 10),
    ('d', 1 << 13),
    ('n', 1 << 14),
    ('K', 1 << 0),
    ('E', 1 << 1),
    ('m', 1 << 11),
];

/// The classes behind `A`: all but new keys, misses and the two channels.
const ALL_EVENTS: u32 = 0x27fc;

/// How many of `EVENTS` the letter `A` hides when all of its classes are on.
const EVENTS_BEFORE_CHANNELS: usize = 11;

/// The number of the value is the set of bits, numbered as Redis's modules know them.
fn event_classes(text: &str) -> Result<Value, ValueError> {
    let mut bits = 0;
    for letter in text.chars() {
        bits |= match letter {
            'A' => ALL_EVENTS,
            _ => EVENTS
                .iter()
                .find(|(l, _)| *l == letter)
                .map(|(_, bit)| *bit)
                .ok_or_else(|| said("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."))?,
        };
    }
    let all = bits & ALL_EVENTS == ALL_EVENTS;
    let mut shown = String::from(if all { "A" } else { "" });
    for (at, (letter, bit)) in EVENTS.iter().enumerate() {
        let hidden = all && at < EVENTS_BEFORE_CHANNELS && *letter != 'n';
        if bits & bit != 0 && !hidden {
            shown.push(*letter);
        }
    }
    Ok(Value { text: shown, number: bits.into() })
}

fn addresses(words: &[&str]) -> Result<Value, ValueError> {
    if words.len() > MAX_BIND_ADDRESSES {
        return Err(said("Too many bind addresses specified."));
    }
    Ok(Value::of_text(words.join(" ")))
}

fn replication(words: &[&str]) -> Result<Value, ValueError> {
    let &[host, port] = words else { return Err(ValueError::WordCount) };
    if host.eq_ignore_ascii_case("no") && port.eq_ignore_ascii_case("one") {
        return Ok(Value::default());
    }
    if !matches!(whole(port), Some(0..=65535)) {
        return Err(said("Invalid master port"));
    }
    Err(said("replicaof directive not allowed in cluster mode"))
}

fn percentiles(words: &[&str]) -> Result<Value, ValueError> {
    let words = if is_nothing(words) { &[] } else { words };
    let mut texts = Vec::with_capacity(words.len());
    for word in words {
        let number = word.parse::<f64>().ok().filter(|number| !number.is_nan());
        let number =
            number.ok_or_else(|| said("Invalid latency-tracking-info-percentiles parameters"))?;
        if !(0.0..=100.0).contains(&number) {
            return Err(said(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            ));
        }
        let text = format!("{number:.6}");
        texts.push(text.trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    Ok(Value::of_text(texts.join(" ")))
}

fn hostname(text: &str) -> Result<Value, ValueError> {
    if text.len() > MAX_HOSTNAME_BYTES {
        return Err(said("Hostnames must be less than 256 characters"));
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.') {
        return Err(said("Hostnames may only contain alphanumeric characters, hyphens or dots"));
    }
    Ok(Value::of_text(text))
}

fn base_name(text: &str) -> Result<Value, ValueError> {
    if text.contains(['/', '\\']) {
        return Err(said("dbfilename can't be a path, just a filename"));
    }
    Ok(Value::of_text(text))
}

/// The variables a process title may hold.
const TITLE_VARIABLES: [&str; 7] =
    ["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];

fn title(text: &str) -> Result<Value, ValueError> {
    let wrong = || said("template format is invalid or contains unknown variables");
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(wrong)?;
        if before.contains('}') || !TITLE_VARIABLES.contains(&name) {
            return Err(wrong());
        }
        rest = after;
    }
    match rest.contains('}') {
        true => Err(wrong()),
        false => Ok(Value::of_text(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(special: Special, text: &str, base: &str, want: Result<&str, &str>) {
        let words: Vec<&str> = match special.is_many_words() {
            true => text.split(' ').filter(|word| !word.is_empty()).collect(),
            false => vec![text],
        };
        let got = parse(special, &words, base);
        assert_eq!(
            got.map(|value| value.text).map_err(|error| error.for_client()),
            want.map(str::to_owned).map_err(str::to_owned),
        );
    }

    #[test]
    fn save_points_add_up_and_are_cleared() {
        check(Special::SavePoints, "60 1", "900 1", Ok("900 1 60 1"));
        check(Special::SavePoints, "", "900 1", Ok(""));
        check(Special::SavePoints, "60", "", Err("Invalid save parameters"));
        check(Special::SavePoints, "0 1", "", Err("Invalid save parameters"));
    }

    #[test]
    fn output_limits_keep_the_classes_not_named() {
        let base = "normal 0 0 0 slave 1 2 3 pubsub 4 5 6";
        let want = "normal 0 0 0 slave 1048576 2 9 pubsub 4 5 6";
        check(Special::OutputLimits, "replica 1mb 2 9", base, Ok(want));
        let said = "Wrong number of arguments in buffer limit configuration.";
        check(Special::OutputLimits, "wrong number", base, Err(said));
        let said = "Invalid client class specified in buffer limit configuration.";
        check(Special::OutputLimits, "master 10mb 10mb 60", base, Err(said));
        let said = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        check(Special::OutputLimits, "replica 10mbb 10mb 60", base, Err(said));
        check(Special::OutputLimits, "replica 10mb 10mb -60", base, Err(said));
    }

    #[test]
    fn event_classes_are_shown_in_one_order() {
        check(Special::EventClasses, "KEA", "", Ok("AKE"));
        check(Special::EventClasses, "nKEA", "", Ok("AnKE"));
        check(Special::EventClasses, "$gm", "", Ok("g$m"));
        check(Special::EventClasses, "g$lshzxetd", "", Ok("A"));
        let said = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
        check(Special::EventClasses, "q", "", Err(said));
    }

    #[test]
    fn percentiles_are_trimmed() {
        check(Special::Percentiles, "50 99.0 99.90", "", Ok("50 99 99.9"));
        check(Special::Percentiles, "0 100", "", Ok("0 100"));
        check(Special::Percentiles, "", "", Ok(""));
        let said = "Invalid latency-tracking-info-percentiles parameters";
        check(Special::Percentiles, "nan", "", Err(said));
    }

    #[test]
    fn titles_name_known_variables() {
        check(Special::Title, "T {title} {port}", "", Ok("T {title} {port}"));
        let said = "template format is invalid or contains unknown variables";
        check(Special::Title, "{invalid-var}", "", Err(said));
        check(Special::Title, "{title", "", Err(said));
    }

    #[test]
    fn a_node_follows_nobody_by_option() {
        check(Special::Replication, "no one", "", Ok(""));
        check(Special::Replication, "127.0.0.1 abc", "", Err("Invalid master port"));
        let said = "replicaof directive not allowed in cluster mode";
        check(Special::Replication, "127.0.0.1 6379", "", Err(said));
    }
}
