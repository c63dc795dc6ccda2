//! `slotctl backup` and `slotctl restore` against real nodes: while clients write, into another
//! cluster, one slot alone, after damage, and over a kill.
//!
//! Not the bytes (`client/src/bin/slotctl/backup`). The program must be built: `cargo build`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use slot_tests::fleet::Fleet;
use slot_tests::keys::slot_of;
use slot_tests::process::{Node, binary, fresh_dir};
use slot_tests::resp::{Client, Value};

const DEADLINE: Duration = Duration::from_secs(30);
const WITH_LOG: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "everysec", "--enable-debug-command", "yes"];
const WITHOUT_LOG: [&str; 4] = ["--appendonly", "no", "--enable-debug-command", "yes"];
/// Hash tags with keys of every type.
const TAGS: usize = 120;
/// Elements of the large collections: several chunks of a list, and one that is over a chunk.
const LARGE: usize = 20_000;
/// Pairs of keys that a backup under writers is given to catch in between, at least.
const WRITES_MIN: u64 = 200;

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        Folder(fresh_dir().expect("a folder"))
    }

    /// A path in it, as a word.
    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It fails only when it is already gone.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn slotctl(server: &str, words: &[&str]) -> Output {
    let program = binary().expect("slotd is built").with_file_name("slotctl");
    let mut command = Command::new(program);
    command.args(["--server", server]).args(words);
    command.output().expect("slotctl is built: cargo build -p slot-client")
}

/// Runs it and expects a good end; its JSON.
fn done(server: &str, words: &[&str]) -> serde_json::Value {
    let words = [words, &["--json"]].concat();
    let Output { status, stdout, stderr } = slotctl(server, &words);
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{words:?}: {status} {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?}: {error}: {out}"))
}

/// Runs it and expects this exit code; what it said.
fn refused(server: &str, words: &[&str], code: i32) -> String {
    let Output { status, stdout, stderr } = slotctl(server, words);
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!((status.code(), stdout.as_slice()), (Some(code), &b""[..]), "{words:?}: {said}");
    said
}

/// A cluster with the client of each node.
struct Nodes<'f> {
    fleet: &'f Fleet,
    clients: Vec<Client>,
}

impl<'f> Nodes<'f> {
    fn of(fleet: &'f Fleet) -> Nodes<'f> {
        let client = |node| {
            let mut client = fleet.client(node).expect("it accepts");
            client.wait_at_most(DEADLINE);
            client
        };
        Nodes { fleet, clients: (0..fleet.len()).map(client).collect() }
    }

    fn server(&self) -> String {
        self.fleet.address(0)
    }

    /// Asks the owner of a key.
    fn ask(&mut self, words: &[&str]) -> Value {
        for client in &mut self.clients {
            let said = client.call(words).expect("it answers");
            if !said.is_error("MOVED ") {
                return said;
            }
        }
        panic!("nobody owns the slot of {words:?}")
    }

    fn owner(&mut self, key: &str) -> usize {
        let owns = |client: &mut Client| {
            !client.call(&["EXISTS", key]).expect("it answers").is_error("MOVED ")
        };
        self.clients.iter_mut().position(owns).expect("somebody owns it")
    }

    /// A digest of everything each node has.
    fn digests(&mut self) -> Vec<Value> {
        let digest = |client: &mut Client| client.call(&["DEBUG", "DIGEST"]).expect("it answers");
        self.clients.iter_mut().map(digest).collect()
    }
}

fn tag(number: usize) -> String {
    format!("{{tag-{number}}}")
}

/// Keys of every type, two of them large.
fn fill(nodes: &mut Nodes<'_>) {
    let many: Vec<String> = (0..LARGE).map(|number| format!("element-{number}")).collect();
    for number in 0..TAGS {
        let key = |name: &str| format!("{}{name}", tag(number));
        let text = number.to_string();
        for words in [
            vec!["SET", &key("string"), &text],
            vec!["SET", &key("ends"), &text, "EX", "3600"],
            vec!["APPEND", &key("raw"), "appended"],
            vec!["RPUSH", &key("list"), "a", "b", &text],
            vec!["HSET", &key("hash"), "field", &text],
            vec!["SADD", &key("set"), "1", "2", &text],
            vec!["ZADD", &key("zset"), &text, "member"],
        ] {
            let said = nodes.ask(&words);
            assert!(!matches!(said, Value::Error(_)), "{words:?}: {said:?}");
        }
    }
    let words = |verb, key: &'static str, all: &[String]| -> Vec<String> {
        [vec![String::from(verb), key.to_owned()], all.to_vec()].concat()
    };
    let pairs: Vec<String> =
        many.iter().flat_map(|one| [one.clone(), "value".to_owned()]).collect();
    let large = [words("RPUSH", "{tag-0}large-list", &many), words("HSET", "{tag-1}large", &pairs)];
    for words in large {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(nodes.ask(&words), Value::Int(LARGE as i64));
    }
    let big = "x".repeat(1 << 20);
    assert_eq!(nodes.ask(&["SET", "{tag-2}big", &big]), Value::ok());
}

/// What the keys of `fill` hold, and when they end.
fn contents(nodes: &mut Nodes<'_>, tags: &[usize]) -> Vec<(String, Value, Value)> {
    let names = ["string", "ends", "raw", "list", "hash", "set", "zset"];
    let small = tags.iter().flat_map(|tag_of| names.map(|name| format!("{}{name}", tag(*tag_of))));
    let large = ["{tag-0}large-list", "{tag-1}large", "{tag-2}big"].map(str::to_owned);
    let keys: Vec<String> = small.chain(large).collect();
    let of = |key: String| {
        let digest = nodes.ask(&["DEBUG", "DIGEST-VALUE", &key]);
        let ends = nodes.ask(&["PEXPIRETIME", &key]);
        (key, digest, ends)
    };
    keys.into_iter().map(of).collect()
}

/// Writes the same number to two keys of a slot at once, renames, and changes a large list, until
/// told to end.
fn write(mut client: Client, tag: &str, ends: &AtomicBool, written: &AtomicU64) {
    let key = |name: &str| format!("{tag}{name}");
    let mut number = 0_u64;
    while !ends.load(Ordering::SeqCst) {
        number += 1;
        let (text, old, new) = (number.to_string(), number % 7, (number + 1) % 7);
        let (old, new) = (key(&format!("name-{old}")), key(&format!("name-{new}")));
        for words in [
            vec!["MULTI"],
            vec!["SET", &key("left"), &text],
            vec!["SET", &old, &text],
            vec!["RENAME", &old, &new],
            vec!["RPUSH", &key("queue"), &text],
            vec!["LPOP", &key("queue")],
            vec!["SET", &key("right"), &text],
            vec!["EXEC"],
        ] {
            client.send(&words).expect("it takes it");
        }
        let said = client.read_many(8).expect("it answers");
        assert!(matches!(&said[7], Value::Array(parts) if parts.len() == 6), "{said:?}");
        written.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs `work` while clients write to slots of every node; how often they wrote meanwhile.
fn under_writers<R>(nodes: &mut Nodes<'_>, tags: &[String], work: impl FnOnce() -> R) -> (R, u64) {
    let (ends, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let owners: Vec<usize> = tags.iter().map(|tag| nodes.owner(tag)).collect();
    let fleet = nodes.fleet;
    std::thread::scope(|scope| {
        for (tag, owner) in tags.iter().zip(owners) {
            let client = fleet.client(owner).expect("it accepts");
            let (ends, written) = (&ends, &written);
            scope.spawn(move || write(client, tag, ends, written));
        }
        while written.load(Ordering::SeqCst) < WRITES_MIN {
            std::thread::yield_now();
        }
        let before = written.load(Ordering::SeqCst);
        let result = work();
        let meanwhile = written.load(Ordering::SeqCst) - before;
        ends.store(true, Ordering::SeqCst);
        (result, meanwhile)
    })
}

fn fleet(args: &[&str]) -> Fleet {
    let mut fleet = Fleet::start(3, args).expect("three nodes form a cluster");
    fleet.wait_until_serving(DEADLINE).expect("all serve");
    fleet
}

fn written_while_it_was_taken_and_restored_elsewhere(args: &[&str]) {
    let (folder, source, target) = (Folder::new(), fleet(args), fleet(args));
    let (mut from, mut into) = (Nodes::of(&source), Nodes::of(&target));
    fill(&mut from);
    let tags: Vec<usize> = (0..TAGS).collect();
    let before = contents(&mut from, &tags);
    let (dir, server) = (folder.at("taken"), from.server());
    let written: Vec<String> = (0..6).map(|number| format!("{{writer-{number}}}")).collect();
    let (taken, meanwhile) =
        under_writers(&mut from, &written, || done(&server, &["backup", &dir]));
    assert!(meanwhile > 0, "nothing was written meanwhile");
    assert_eq!(taken["slots"], "0-16383");

    let told = done(&into.server(), &["restore", &dir, "--yes"]);
    assert_eq!((&told["restored"], &told["expired"]), (&taken["keys"], &0.into()));
    assert_eq!(contents(&mut into, &tags), before);
    for tag in &written {
        let mut get = |name: &str| into.ask(&["GET", &format!("{tag}{name}")]);
        let (left, right) = (get("left"), get("right"));
        assert!(left == right && left != Value::NullBulk, "{tag}: {left:?} and {right:?}");
        let number: u64 = left.text().and_then(|text| text.parse().ok()).expect("a number");
        // The newest name is there, under that name alone.
        let name = format!("name-{}", (number + 1) % 7);
        assert_eq!(get(&name), left, "{tag}");
    }

    // Nobody writes: everything is the same, and what is there is replaced.
    let quiet = folder.at("quiet");
    done(&server, &["backup", &quiet]);
    let said = refused(&into.server(), &["restore", &quiet, "--yes"], 1);
    assert!(said.contains("slots have keys") && said.contains("nothing was changed"), "{said}");
    done(&into.server(), &["restore", &quiet, "--yes", "--replace"]);
    assert_eq!(from.digests(), into.digests());
}

#[test]
fn a_backup_under_writers_is_consistent_per_slot_and_goes_into_another_cluster() {
    written_while_it_was_taken_and_restored_elsewhere(&WITH_LOG);
}

#[test]
fn nodes_without_a_log_are_backed_up_as_well() {
    written_while_it_was_taken_and_restored_elsewhere(&WITHOUT_LOG);
}

#[test]
fn one_slot_is_restored_alone_and_survives_a_kill() {
    let (folder, mut fleet) = (Folder::new(), fleet(&WITH_LOG));
    let dir = folder.at("taken");
    let mut nodes = Nodes::of(&fleet);
    fill(&mut nodes);
    let server = nodes.server();
    done(&server, &["backup", &dir]);
    let (damaged, other) = (tag(1), tag(3));
    let slot = slot_of(damaged.as_bytes()).to_string();
    let before = contents(&mut nodes, &[1]);

    for words in [
        vec!["DEL", "{tag-1}large", "{tag-1}string"],
        vec!["SET", "{tag-1}hash", "no hash"],
        vec!["SET", "{tag-1}new", "not in the backup"],
        vec!["SET", "{tag-3}new", "stays"],
    ] {
        nodes.ask(&words);
    }
    let said = refused(&server, &["restore", &dir, "--slots", &slot, "--yes"], 1);
    assert!(said.contains(&format!("1 slot has keys that the backup covers: {slot};")), "{said}");
    let said = refused(&server, &["restore", &dir, "--slots", &slot, "--replace"], 1);
    assert!(said.contains("pass --yes; nothing was changed"), "{said}");
    let told = done(&server, &["restore", &dir, "--slots", &slot, "--replace", "--yes"]);
    assert_eq!((&told["slots"], &told["restored"]), (&slot.as_str().into(), &8.into()));
    assert_eq!(contents(&mut nodes, &[1]), before);
    assert_eq!(nodes.ask(&["EXISTS", "{tag-1}new"]), Value::Int(0));
    assert_eq!(nodes.ask(&["GET", &format!("{other}new")]), Value::bulk("stays"));

    let (digests, owner) = (nodes.digests(), nodes.owner(&damaged));
    fleet.kill(owner).expect("it runs");
    fleet.begin(owner).expect("it starts");
    fleet.wait_until_serving(DEADLINE).expect("it is back");
    let serves = |fleet: &Fleet| {
        let said = fleet.ask(owner, &["EXISTS", "{tag-1}large"]);
        said.is_ok_and(|said| said == Value::Int(1))
    };
    fleet.wait_for(DEADLINE, "it serves what it had", serves).expect("it does");
    assert_eq!(Nodes::of(&fleet).digests(), digests);
}

/// Changes the largest part of a backup.
fn damage(dir: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("readable").path());
    let parts = entries.filter(|path| path.extension().is_some_and(|kind| kind == "part"));
    let largest = parts.max_by_key(|path| fs::metadata(path).expect("a file").len());
    let path = largest.expect("a part");
    let mut bytes = fs::read(&path).expect("a file");
    change(&mut bytes);
    fs::write(&path, bytes).expect("a file");
    path
}

#[test]
fn a_damaged_or_unfinished_backup_changes_nothing() {
    let (folder, node) = (Folder::new(), Node::start(&WITHOUT_LOG).expect("it starts"));
    let server = node.address().to_string();
    let mut client = node.client().expect("it accepts");
    for number in 0..5_000 {
        let (key, value) = (format!("key-{number}"), "v".repeat(number % 200));
        assert_eq!(client.call(&["SET", &key, &value]).expect("it answers"), Value::ok());
    }
    let dir = folder.at("taken");
    done(&server, &["backup", &dir]);
    let told = done(&server, &["restore", &dir, "--check"]);
    assert_eq!(told["keys"], 5_000);
    let said = refused(&server, &["backup", &dir], 1);
    assert!(said.contains("it is not empty"), "{said}");

    client.say("SET key-1 newer").expect("it answers");
    let digest = client.say("DEBUG DIGEST").expect("it answers");
    let (path, restore) = (PathBuf::from(&dir), ["restore", &dir, "--replace", "--yes"]);
    let refuses = |why: &str| {
        let said = refused(&server, &restore, 1);
        assert!(said.contains(why) && said.contains("nothing was changed"), "{why}: {said}");
        said
    };
    let whole = damage(&path, |bytes| bytes[1_000] ^= 1);
    let said = refuses("damaged");
    assert!(said.contains(".part, byte ") && said.contains("expected"), "{said}");
    damage(&path, |bytes| bytes[1_000] ^= 1);
    assert!(whole.exists());
    let mut last = None;
    damage(&path, |bytes| last = bytes.pop());
    refuses("a file of");
    damage(&path, |bytes| bytes.extend(last));
    assert_eq!(done(&server, &["restore", &dir, "--check"])["keys"], 5_000, "it is mended");

    let manifest = path.join("manifest.json");
    let text = fs::read_to_string(&manifest).expect("a file");
    fs::write(&manifest, text.replacen("\"format\":1", "\"format\":7", 1)).expect("a file");
    refuses("is of format 7");
    fs::write(&manifest, &text[..text.len() / 2]).expect("a file");
    refuses("manifest.json");
    fs::remove_file(&manifest).expect("a file");
    refuses("one that was not finished");
    assert_eq!(client.say("DEBUG DIGEST").expect("it answers"), digest);
    fs::write(&manifest, &text).expect("a file");
    done(&server, &restore);
    assert_eq!(client.say("STRLEN key-1").expect("it answers"), Value::Int(1));
}
