//! The file `node` of a data directory: who the node is, its boot number and the marks of its
//! last run.
//!
//! ```text
//!   # slotd: who this node is. A copy of this folder is not another node: never run two.
//!   format 1
//!   id 07c37dfeb235213a872192d90877d0cd55635b91
//!   ...                                          one `name value` a line
//!   sum 1b2f93aa                                 CRC32C of all bytes before this line, hex
//! ```
//! Invariant: a file that is not whole and unchanged is refused: guessing who we are is worse.

use std::fmt;

use slots::{Boot, ClusterId, Kept, NodeId, Nonce, StoreId};

use super::evidence::{self, Durability};
use crate::control::startup::{BootRecord, MAX_CLAIMS};

/// Longest file, bytes: a full one with `MAX_CLAIMS` claims, and as much again.
pub const MAX_IDENTITY_BYTES: usize = 40_000;
/// Version of the file's format.
const FORMAT: u32 = 1;
const HEADER: &str =
    "# slotd: who this node is. A copy of this folder is not another node: never run two.\n";

/// What the file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeFile {
    /// The node's id for life (until CLUSTER RESET HARD).
    pub id: NodeId,
    /// The data directory's own mark.
    pub store: StoreId,
    /// Whose the log and the checkpoint of keys say they are: the first id and mark of the
    /// directory, which a node keeps for its files when it becomes another (CLUSTER RESET HARD).
    pub keys: (NodeId, StoreId),
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// Generation of that cluster.
    pub generation: u64,
    /// The boot numbers: the last one that was in the table, and the starts since.
    pub boots: BootRecord,
    /// Has the node founded or joined the cluster? Until then its log may be empty.
    pub founded: bool,
    /// What the node had promised in the table's log may be lost: its folder was taken away, or
    /// comes from a backup. It gives no vote until a majority has taken its vote away.
    pub log_lost: bool,
    /// A later generation of the cluster that was heard of: this one was given up. 0: none.
    pub superseded_by: u64,
    /// The weakest durability of the newest run.
    pub weakest: Durability,
    /// Did the newest run end in order?
    pub stopped_cleanly: bool,
    /// Did a sync fail in the newest run?
    pub sync_failed: bool,
    /// The kernel's boot id in the newest run.
    pub kernel: String,
    /// The least that any start found since one was last taken into the table; all: none since.
    pub kept: Kept,
}

/// A start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its own mark.
    pub nonce: Nonce,
    /// How hard it tries to keep its writes.
    pub durability: Durability,
    /// The kernel's boot id.
    pub kernel: String,
}

/// Why a file is none of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadIdentity {
    /// Longer than any we write.
    TooLong {
        /// Its length, bytes.
        got: usize,
    },
    /// Written by a newer version.
    Format {
        /// The format it names.
        got: u32,
    },
    /// The checksum does not fit: it was damaged or edited.
    Sum,
    /// A line is missing or says nonsense.
    Field(&'static str),
}

impl fmt::Display for BadIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadIdentity::TooLong { got } => {
                write!(f, "is {got} bytes long, expected at most {MAX_IDENTITY_BYTES}")
            }
            BadIdentity::Format { got } => write!(
                f,
                "has format {got}, this slotd knows {FORMAT}: a newer version \
                 wrote it"
            ),
            BadIdentity::Sum => f.write_str(
                "was damaged or edited (its checksum does not fit): start the node in an empty \
                 folder and join it again, after 'slotctl node lost' for the old one",
            ),
            BadIdentity::Field(name) => write!(f, "has no usable line '{name}'"),
        }
    }
}

impl std::error::Error for BadIdentity {}

impl NodeFile {
    /// A start, with what it found of what was acknowledged: claims a boot number and begins the
    /// marks of its run. To be on disk before anybody hears of it. `kept` is what it reports.
    pub fn note_start(&mut self, found: Kept, run: Run) {
        self.boots.claim(run.nonce);
        self.kept = evidence::least(self.kept, found);
        (self.weakest, self.kernel) = (run.durability, run.kernel);
        (self.stopped_cleanly, self.sync_failed) = (false, false);
    }

    /// The boot numbers changed. If no claim is left the newest start is in the table, and so is
    /// what it reported: a later one is judged by the marks alone. To be on disk before this start
    /// plays a role: what it acknowledges then is not what was lost before.
    pub fn note_boots(&mut self, boots: BootRecord) {
        if boots.claims.is_empty() {
            self.kept = Kept::All;
        }
        self.boots = boots;
    }

    /// The file's text.
    pub fn render(&self) -> String {
        let flag = |set: bool| if set { "yes" } else { "no" };
        let claims: Vec<String> = self.boots.claims.iter().map(Nonce::to_string).collect();
        let claims = if claims.is_empty() { "none".to_owned() } else { claims.join(",") };
        let body = format!(
            "{HEADER}format {FORMAT}\nid {}\nstore {}\nkeys {} {}\ncluster {}\ngeneration {}\n\
             confirmed {}\nclaims {}\nfounded {}\nlog-lost {}\nsuperseded-by {}\nweakest {}\n\
             stopped-cleanly {}\nsync-failed {}\nkernel {}\nkept {}\n",
            self.id,
            self.store,
            self.keys.0,
            self.keys.1,
            self.cluster,
            self.generation,
            self.boots.confirmed,
            claims,
            flag(self.founded),
            flag(self.log_lost),
            self.superseded_by,
            self.weakest.as_str(),
            flag(self.stopped_cleanly),
            flag(self.sync_failed),
            self.kernel,
            kept_word(self.kept),
        );
        let sum = crc32c::crc32c(body.as_bytes());
        format!("{body}sum {sum:08x}\n")
    }

    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<NodeFile, BadIdentity> {
        if text.len() > MAX_IDENTITY_BYTES {
            return Err(BadIdentity::TooLong { got: text.len() });
        }
        let fields = Fields(text);
        // Before the sum: a newer format may have another one.
        let format = fields.number("format")?;
        if format != u64::from(FORMAT) {
            return Err(BadIdentity::Format { got: u32::try_from(format).unwrap_or(u32::MAX) });
        }
        let (body, sum) = text.rsplit_once("\nsum ").ok_or(BadIdentity::Sum)?;
        let body = &text[..body.len() + 1];
        if sum != format!("{:08x}\n", crc32c::crc32c(body.as_bytes())) {
            return Err(BadIdentity::Sum);
        }
        let (id, store) = (fields.parsed("id")?, fields.parsed("store")?);
        Ok(NodeFile {
            id,
            store,
            // Files of before this line was written never changed their ids.
            keys: match fields.text("keys") {
                Ok(_) => fields.pair("keys")?,
                Err(_) => (id, store),
            },
            cluster: fields.parsed("cluster")?,
            generation: fields.number("generation")?,
            boots: BootRecord {
                confirmed: Boot(fields.number("confirmed")?),
                claims: fields.claims()?,
            },
            founded: fields.flag("founded")?,
            // Files of before this line was written know of no loss.
            log_lost: fields.text("log-lost").is_ok() && fields.flag("log-lost")?,
            superseded_by: fields.number("superseded-by")?,
            weakest: Durability::parse(fields.text("weakest")?)
                .ok_or(BadIdentity::Field("weakest"))?,
            stopped_cleanly: fields.flag("stopped-cleanly")?,
            sync_failed: fields.flag("sync-failed")?,
            kernel: fields.text("kernel")?.to_owned(),
            kept: parse_kept(fields.text("kept")?).ok_or(BadIdentity::Field("kept"))?,
        })
    }
}

const fn kept_word(kept: Kept) -> &'static str {
    match kept {
        Kept::All => "all",
        Kept::Tail => "tail",
        Kept::Nothing => "nothing",
    }
}

fn parse_kept(word: &str) -> Option<Kept> {
    [Kept::All, Kept::Tail, Kept::Nothing].into_iter().find(|kept| kept_word(*kept) == word)
}

struct Fields<'t>(&'t str);

impl<'t> Fields<'t> {
    fn text(&self, name: &'static str) -> Result<&'t str, BadIdentity> {
        let mut pairs = self.0.lines().filter_map(|line| line.split_once(' '));
        let found = pairs.find(|(key, _)| *key == name);
        found.map(|(_, value)| value).ok_or(BadIdentity::Field(name))
    }

    fn parsed<T: std::str::FromStr>(&self, name: &'static str) -> Result<T, BadIdentity> {
        self.text(name)?.parse().map_err(|_| BadIdentity::Field(name))
    }

    fn pair<A, B>(&self, name: &'static str) -> Result<(A, B), BadIdentity>
    where
        A: std::str::FromStr,
        B: std::str::FromStr,
    {
        let both = self.text(name)?.split_once(' ');
        let both = both.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        both.ok_or(BadIdentity::Field(name))
    }

    fn number(&self, name: &'static str) -> Result<u64, BadIdentity> {
        self.parsed(name)
    }

    fn claims(&self) -> Result<Vec<Nonce>, BadIdentity> {
        let bad = BadIdentity::Field("claims");
        let words = self.text("claims")?.split(',').filter(|word| *word != "none");
        let claims: Option<Vec<Nonce>> = words.map(|word| word.parse().ok()).collect();
        claims.filter(|claims| claims.len() <= MAX_CLAIMS).ok_or(bad)
    }

    fn flag(&self, name: &'static str) -> Result<bool, BadIdentity> {
        match self.text(name)? {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(BadIdentity::Field(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> NodeFile {
        NodeFile {
            id: NodeId::from_bytes([7; 20]),
            store: StoreId::from_bytes([8; 16]),
            keys: (NodeId::from_bytes([5; 20]), StoreId::from_bytes([6; 16])),
            cluster: ClusterId::from_bytes([9; 20]),
            generation: 3,
            boots: BootRecord {
                confirmed: Boot(41),
                claims: vec![Nonce::from_bytes([1; 8]), Nonce::from_bytes([2; 8])],
            },
            founded: true,
            log_lost: true,
            superseded_by: 0,
            weakest: Durability::Memory,
            stopped_cleanly: true,
            sync_failed: false,
            kernel: "5c5ff4b1-5f0a-4d62-a5a0-3f1f2b9e9d11".into(),
            kept: Kept::All,
        }
    }

    #[test]
    fn a_file_comes_back_from_its_text() {
        for kept in [Kept::All, Kept::Tail, Kept::Nothing] {
            let file = NodeFile { kept, ..file() };
            assert_eq!(NodeFile::parse(&file.render()), Ok(file));
        }
    }

    /// The file after a start that found this; it is written and read, as between two processes.
    fn started(mut file: NodeFile, found: Kept) -> NodeFile {
        let nonce = Nonce::from_bytes([file.boots.claims.len() as u8; 8]);
        let (durability, kernel) = (Durability::Always, "a kernel".to_owned());
        file.note_start(found, Run { nonce, durability, kernel });
        NodeFile::parse(&file.render()).expect("a file")
    }

    /// The file when a start's boot is in the table.
    fn seated(mut file: NodeFile) -> NodeFile {
        let confirmed = file.boots.confirmed.next();
        file.note_boots(BootRecord { confirmed, claims: Vec::new() });
        file
    }

    #[test]
    fn a_start_begins_the_marks_of_its_run() {
        let before = seated(NodeFile { sync_failed: true, ..file() });
        let after = started(before.clone(), Kept::All);
        let expected = NodeFile {
            boots: BootRecord { confirmed: Boot(42), claims: vec![Nonce::from_bytes([0; 8])] },
            weakest: Durability::Always,
            stopped_cleanly: false,
            sync_failed: false,
            kernel: "a kernel".into(),
            ..before
        };
        assert_eq!(after, expected);
    }

    #[test]
    fn two_crashes_before_the_table_knows_of_a_start_report_the_least() {
        // Power was lost, then only the process died: the tail is gone all the same.
        let file = started(seated(file()), Kept::Tail);
        assert_eq!(file.kept, Kept::Tail);
        let file = started(file, Kept::All);
        assert_eq!((file.boots.claims.len(), file.kept), (2, Kept::Tail));
        let file = started(file, Kept::Nothing);
        assert_eq!(file.kept, Kept::Nothing);
        assert_eq!(started(file, Kept::Tail).kept, Kept::Nothing);
    }

    #[test]
    fn a_start_that_takes_the_next_number_still_reports_the_least() {
        // The one before it is in the table and played no role.
        let mut file = started(started(seated(file()), Kept::Tail), Kept::All);
        let claims = vec![Nonce::from_bytes([1; 8])];
        file.note_boots(BootRecord { confirmed: file.boots.confirmed.next(), claims });
        assert_eq!(file.kept, Kept::Tail);
        assert_eq!(seated(file).kept, Kept::All);
    }

    #[test]
    fn after_a_seated_start_the_marks_alone_count() {
        for found in [Kept::All, Kept::Tail, Kept::Nothing] {
            let file = seated(started(file(), Kept::Nothing));
            assert_eq!(started(file, found).kept, found);
        }
    }

    #[test]
    fn a_full_file_fits() {
        let claims = vec![Nonce::from_bytes([7; 8]); MAX_CLAIMS];
        let full = NodeFile { boots: BootRecord { confirmed: Boot(1), claims }, ..file() };
        assert_eq!(NodeFile::parse(&full.render()), Ok(full));
    }

    #[test]
    fn every_edited_byte_is_noticed() {
        let text = file().render();
        for at in HEADER.len()..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let edited = String::from_utf8(bytes).expect("ASCII stays ASCII");
            assert!(NodeFile::parse(&edited).is_err(), "byte {at} of {text}");
        }
    }

    #[test]
    fn a_cut_a_longer_and_a_newer_file_are_refused() {
        let text = file().render();
        for end in 0..text.len() {
            assert!(NodeFile::parse(&text[..end]).is_err(), "{end}");
        }
        let long = format!("{text}{}", "#".repeat(MAX_IDENTITY_BYTES));
        assert_eq!(NodeFile::parse(&long), Err(BadIdentity::TooLong { got: long.len() }));
        let newer = text.replace("format 1", "format 2");
        assert_eq!(NodeFile::parse(&newer), Err(BadIdentity::Format { got: 2 }));
    }
}
