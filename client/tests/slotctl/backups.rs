//! `backup` and `restore` as their users see them: the folder, what is sent, each end.
//!
//! Against nodes that make their frames up; the server's tests have real ones.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use slots::admin::{BackupSlots, HeldSlot, RestoreStep};

use crate::fake::{Fake, Reaction, json};
use crate::{answer_as, cluster, slotctl};

/// A folder that goes with its test; nothing is made.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Folder(std::env::temp_dir().join(format!("slotctl-test-{process}-{number}")))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("readable").file_name().into_string().expect("text")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It fails only when it is already gone.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a fake cluster takes backups and restores.
#[derive(Clone, Copy)]
struct Ways {
    /// What BEGIN says the first time, if not an id.
    first: Option<&'static str>,
    /// What COMMIT says, if not that it is done.
    commit: Option<&'static str>,
    /// Has slot 5 of node a keys?
    has_keys: bool,
}

const WELL: Ways = Ways { first: None, commit: None, has_keys: true };
const EMPTY: Ways = Ways { has_keys: false, ..WELL };

/// Three nodes; node a holds slot 5.
fn nodes(ways: Ways) -> Vec<Fake> {
    let begun = Arc::new(AtomicUsize::new(0));
    let asked = Arc::new(AtomicUsize::new(0));
    cluster(move |n, line, status| {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["SLOTD", "BACKUP", "SLOTS"] => {
                let mut held = Vec::new();
                if n == 0 && ways.has_keys {
                    held.push(HeldSlot { slot: 5, keys: 2, bytes: 90 });
                }
                let owned = status.nodes[n].slots.clone();
                json(&BackupSlots { table_version: 52, owned, held })
            }
            ["SLOTD", _, "BEGIN", ..] => match ways.first {
                Some(error) if begun.fetch_add(1, Ordering::SeqCst) == 0 => Reaction::Error(error),
                _ => Reaction::Json("7".into()),
            },
            ["SLOTD", "BACKUP", "NEXT", "7"] => match asked.fetch_add(1, Ordering::SeqCst) {
                0 => Reaction::Json("\u{1}a chunk".into()),
                1 => Reaction::Json(format!("\u{3}{}\u{2}{}", "\0".repeat(16), "\0".repeat(7))),
                _ => Reaction::Error("NOSTREAM there is no stream 7"),
            },
            ["SLOTD", "RESTORE", "FRAME" | "END", ..] => Reaction::Raw(b"+OK\r\n"),
            ["SLOTD", "RESTORE", "COMMIT", "7"] => match ways.commit {
                Some(error) => Reaction::Error(error),
                None => json(&RestoreStep { restored: 2, ..RestoreStep::default() }),
            },
            _ => answer_as(line, status),
        }
    })
}

fn restores(node: &Fake) -> Vec<String> {
    node.asked().into_iter().filter(|line| line.contains("RESTORE")).collect()
}

/// A backup of slots 0-99, of which slot 5 has keys.
fn taken() -> Folder {
    let (folder, nodes) = (Folder::new(), nodes(WELL));
    let ended = slotctl(&["backup", folder.path(), "--slots", "0-9,10-99"]).at(&nodes[0]).end();
    assert_eq!((ended.exit, ended.err.as_str()), (0, ""), "{}", ended.out);
    let text = "1 slot with keys of 100, 2 keys, ";
    assert!(ended.out.contains(text) && ended.out.lines().count() == 1, "{}", ended.out);
    assert_eq!(folder.files(), ["000000.part", "manifest.json"]);
    folder
}

#[test]
fn a_backup_is_restored_slot_by_slot() {
    let (folder, target) = (taken(), nodes(EMPTY));
    let ended = slotctl(&["restore", folder.path(), "--yes"]).at(&target[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert!(ended.out.starts_with("2 keys restored into 100 slots in "), "{}", ended.out);
    let plan = ended.err;
    assert!(plan.contains("The backup was taken of cluster cccc"), "{plan}");
    assert!(plan.contains("None of these slots has keys now."), "{plan}");
    let sent: Vec<String> = restores(&target[0]);
    let kinds: Vec<&str> =
        sent.iter().map(|line| line.split(' ').nth(2).expect("a verb")).collect();
    assert_eq!(kinds, ["BEGIN", "FRAME", "FRAME", "COMMIT"]);
    assert_eq!(sent[0], "SLOTD RESTORE BEGIN 5");
    assert!(restores(&target[1]).is_empty() && restores(&target[2]).is_empty());
}

#[test]
fn a_check_asks_no_node() {
    let folder = taken();
    let ended = slotctl(&["restore", folder.path(), "--check", "--json"])
        .with("SLOTCTL_SERVER", crate::nobody())
        .end();
    assert_eq!(ended.exit, 0, "{}", ended.out);
    let told: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((&told["slots"], &told["keys"]), (&"0-99".into(), &2.into()));
    assert_eq!(told.get("into"), None);
}

#[test]
fn slots_with_keys_are_replaced_when_that_is_said() {
    let (folder, target) = (taken(), nodes(WELL));
    let restore =
        |more: &[&str]| slotctl(&[&["restore", folder.path()], more].concat()).at(&target[0]);
    restore(&["--yes"]).fails(1, "1 slot has keys that the backup covers: 5; --replace empties");
    restore(&["--replace"]).fails(1, "restore asks before it acts and there is no terminal");
    assert!(restores(&target[0]).is_empty());
    let ended = restore(&["--replace", "--yes"]).end();
    assert!(ended.err.contains("THE 2 KEYS IN 1 SLOT ARE REPLACED: 5."), "{}", ended.err);
    assert_eq!(restores(&target[0])[0], "SLOTD RESTORE BEGIN 5 REPLACE");
    // Slots without a section are emptied, too.
    let (other, target) = (Folder::new(), nodes(WELL));
    let empty = nodes(EMPTY);
    assert_eq!(slotctl(&["backup", other.path(), "--slots", "5"]).at(&empty[0]).end().exit, 0);
    let words = ["restore", other.path(), "--replace", "--yes"];
    assert_eq!(slotctl(&words).at(&target[0]).end().exit, 0);
    let sent = restores(&target[0]);
    assert_eq!((sent.len(), sent[0].as_str()), (3, "SLOTD RESTORE BEGIN 5 REPLACE"));
    assert_eq!(sent[1], format!("SLOTD RESTORE FRAME 7 \u{3}{}", "\0".repeat(24)));
}

#[test]
fn a_slot_that_went_elsewhere_is_taken_in_another_round() {
    let (folder, nodes) = (Folder::new(), nodes(Ways { first: Some("MOVED 5 h:1"), ..WELL }));
    let ended = slotctl(&["backup", folder.path()]).at(&nodes[0]).end();
    assert_eq!(ended.exit, 0, "{}", ended.err);
    assert_eq!(folder.files(), ["000001.part", "manifest.json"]);
}

#[test]
fn a_backup_that_fails_leaves_nothing_and_can_be_begun_again() {
    let (folder, nodes) = (Folder::new(), nodes(Ways { first: Some("NOPERM no"), ..WELL }));
    let backup = || slotctl(&["backup", folder.path()]).at(&nodes[0]);
    backup().fails(3, "1 slot could not be read (slot 5: node-a: NOPERM no); no manifest was");
    assert_eq!(folder.files(), Vec::<String>::new());
    assert_eq!(backup().end().exit, 0);
    backup().fails(1, "it is not empty: it has");
    assert_eq!(folder.files(), ["000000.part", "manifest.json"]);
}

#[test]
fn a_restore_that_stops_says_what_is_done_and_how_to_go_on() {
    let folder = taken();
    let target = nodes(Ways { commit: Some("MISCONF no space"), ..EMPTY });
    let ended = slotctl(&["restore", folder.path(), "--yes"]).at(&target[0]).end();
    let last = ended.err.lines().last().unwrap_or_default();
    assert_eq!(ended.exit, 3, "{last}");
    assert!(last.contains("slot 5: node-a: MISCONF no space"), "{last}");
    let go_on = format!("slotctl restore {} --slots 5 --replace", folder.path());
    assert!(last.contains("restored: none") && last.ends_with(&go_on), "{last}");
}

#[test]
fn a_folder_that_is_no_backup_reaches_no_node() {
    let (folder, target) = (taken(), nodes(EMPTY));
    let restore = |more: &[&str]| {
        slotctl(&[&["restore", folder.path(), "--yes"], more].concat()).at(&target[0])
    };
    restore(&["--slots", "50-200"]).fails(1, "has no slots 100-200: it covers 0-99");
    let part = folder.0.join("000000.part");
    let whole = std::fs::read(&part).expect("a file");
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 4;
        std::fs::write(&part, broken).expect("a file");
        restore(&[]).fails(1, "nothing was changed");
    }
    std::fs::write(&part, &whole[..whole.len() - 1]).expect("a file");
    restore(&[]).fails(1, "expected a file of");
    std::fs::remove_file(&part).expect("a file");
    restore(&[]).fails(1, "000000.part: ");
    std::fs::remove_file(folder.0.join("manifest.json")).expect("a file");
    restore(&[]).fails(1, "it is no backup, or one that was not finished");
    assert!(target.iter().all(|node| node.asked().is_empty()));
}
