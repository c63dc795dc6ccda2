//! A node's disk is full: it refuses writes, reads and stays in its cluster, and goes on by itself
//! when there is room again.
//!
//! The disk is a tmpfs of 256 MiB in a mount namespace of its own, so that nothing is left of it;
//! where that cannot be made, the test says so and does nothing else.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use slot_tests::durable::{Load, Mode, Promise};
use slot_tests::fleet::{Fleet, Place};
use slot_tests::keys::slot_of;
use slot_tests::process::{free_ports, fresh_dir};
use slot_tests::resp::{Client, Value};

const DISK: &str = "256m";
/// The node on the small disk: it owns the last third of the slots.
const SMALL: usize = 2;
const FIRST_SLOT: u16 = 10_922;
const WRITERS: usize = 4;
const SHELVES: usize = 40;
const DEADLINE: Duration = Duration::from_secs(60);
/// From the room's return to the first write: an operator would not wait longer.
const GOES_ON: Duration = Duration::from_secs(15);
/// An answer that is not there by then waits for room on the disk.
const STUCK: Duration = Duration::from_secs(3);
/// With `MOST_WRITES` more than a log can keep in memory while it waits for room.
const VALUE_BYTES: usize = 256 * 1024;
const MOST_WRITES: usize = 4096;

/// A small disk, mounted where only its holder and who is sent there see it.
struct Disk {
    holder: Child,
    at: PathBuf,
}

impl Disk {
    /// Mounts it at a folder that exists.
    fn mount(at: &Path) -> io::Result<Disk> {
        let script = format!("mount -t tmpfs -o size={DISK} tmpfs \"$0\" && echo ready && cat");
        let mut holder = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .arg(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut said = String::new();
        if let Some(out) = holder.stdout.take() {
            BufReader::new(out).read_line(&mut said)?;
        }
        if said.trim() != "ready" {
            let _ = holder.kill();
            holder.wait()?;
            return Err(io::Error::other("no tmpfs can be mounted in a namespace here"));
        }
        Ok(Disk { holder, at: at.to_owned() })
    }

    /// Words before a program's path that let it see the disk.
    fn prefix(&self) -> Vec<String> {
        let pid = self.holder.id().to_string();
        ["nsenter", "-t", &pid, "-m", "--"].map(str::to_owned).to_vec()
    }

    /// As this test sees it.
    fn seen(&self) -> PathBuf {
        let at = self.at.strip_prefix("/").unwrap_or(&self.at);
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(at)
    }

    /// Takes all room that is left.
    fn fill(&self) -> io::Result<()> {
        let path = self.seen().join("filler");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
        for length in [1 << 20, 4096] {
            let part = vec![1; length];
            while file.write_all(&part).is_ok() {}
        }
        Ok(())
    }

    /// Gives it back.
    fn free(&self) -> io::Result<()> {
        fs::remove_file(self.seen().join("filler"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Both fail only when it is already gone; the mount goes with its last process.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Three nodes, the last on the disk. `None`: it cannot be made here, which is told.
fn fleet() -> Option<(Disk, Fleet)> {
    let home = fresh_dir().expect("a folder");
    let disk = match Disk::mount(&home) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("skipped: {error} (it takes root and unshare)");
            return None;
        }
    };
    let first = free_ports(3).expect("free ports");
    let at = |node: u16| Place {
        prefix: if usize::from(node) == SMALL { disk.prefix() } else { Vec::new() },
        host: "127.0.0.1".into(),
        port: first + node,
    };
    // What it prints would be lost with the disk, and its folder must be empty when it is mounted.
    let args = Mode::Everysec.args();
    let dirs = [None, None, Some(home)];
    let fleet = Fleet::start_in((0..3).map(at).zip(dirs).collect(), &args);
    Some((disk, fleet.expect("three nodes form a cluster")))
}

/// Hash tags of the small node's slots.
fn tags() -> Vec<String> {
    let all = (0..).map(|number| format!("{{full-{number}}}"));
    all.filter(|tag| slot_of(tag.as_bytes()) >= FIRST_SLOT).take(WRITERS * SHELVES).collect()
}

fn client(fleet: &Fleet) -> Client {
    let mut client = fleet.client(SMALL).expect("it accepts");
    client.wait_at_most(DEADLINE);
    client
}

/// Sets one large value after the other until one is refused; what was said then.
fn write_until_refused(fleet: &Fleet, tag: &str) -> Value {
    let (mut at_full, value) = (client(fleet), vec![b'x'; VALUE_BYTES]);
    at_full.wait_at_most(STUCK);
    for number in 0..MOST_WRITES {
        let key = format!("{tag}large-{number}");
        match at_full.call(&[b"SET", key.as_bytes(), &value]) {
            Ok(said) if said == Value::ok() => {}
            Ok(said) => {
                let exists = client(fleet).call(&["EXISTS", &key]).expect("reads go on");
                assert_eq!(exists, Value::Int(0), "refused before it was executed");
                println!("{number} large writes were taken on a full disk, then: {said:?}");
                return said;
            }
            // Executed, and its answer waits for room: the next one must be refused.
            Err(error) => {
                println!("large write {number}: no answer yet ({error})");
                at_full = client(fleet);
                at_full.wait_at_most(STUCK);
            }
        }
    }
    panic!("{MOST_WRITES} writes of {VALUE_BYTES} bytes fit on a disk of {DISK}");
}

fn is_whole(fleet: &Fleet, node: usize) -> bool {
    let said = fleet.ask(node, &["CLUSTER", "INFO"]);
    said.is_ok_and(|said| said.text().is_some_and(|text| text.contains("cluster_state:ok")))
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing() {
    let Some((disk, mut fleet)) = fleet() else { return };
    let key = tags()[0].clone() + "after";
    let address = fleet.address(SMALL);
    let mut load = Load::new(WRITERS, tags(), 0, 4);
    let write_for = |load: &mut Load, ms| {
        load.run(&address, |_| {
            std::thread::sleep(Duration::from_millis(ms));
            Ok(())
        })
    };
    write_for(&mut load, 500).expect("it takes writes");
    assert!(load.total.acked > 0 && load.total.refused == 0, "{:?}", load.total);

    disk.fill().expect("it is filled");
    let refused = write_until_refused(&fleet, &tags()[0]);
    assert!(refused.is_error("MISCONF"), "{refused:?}");
    let words = refused.text().unwrap_or_default();
    assert!(words.contains("space") || words.contains("full"), "it says why: {words}");
    assert_eq!(client(&fleet).call(&["SET", &key, "y"]).ok(), Some(refused), "and goes on so");
    let said = client(&fleet).call(&["GET", &key]).expect("reads go on");
    assert_eq!(said, Value::NullBulk, "refused before it was executed");
    // All deeds are refused, none has an effect, and everything can be read.
    let before = load.total;
    write_for(&mut load, 300).expect("it answers");
    assert!(load.total.refused > before.refused, "{:?}", load.total);
    load.check(&address, Promise::All).expect("reads go on");
    assert!(load.findings.holds(), "{:?}", load.findings.faults);

    // It stays in the cluster, which can be changed meanwhile.
    assert!((0..3).all(|node| is_whole(&fleet, node)));
    let id = fleet.ask(SMALL, &["CLUSTER", "MYID"]).expect("it answers");
    let id = id.text().expect("an id").to_owned();
    let said = fleet.ask(0, &["SLOTD", "NODE", "LABEL", &id, "disk", "full"]).expect("it answers");
    assert!(said.text().is_some_and(|text| text.contains("table_version")), "{said:?}");

    disk.free().expect("there is room again");
    let start = Instant::now();
    fleet
        .wait_for(GOES_ON, "writes are taken again", |fleet| {
            fleet.ask(SMALL, &["SET", &key, "z"]).is_ok_and(|said| said == Value::ok())
        })
        .expect("it goes on by itself");
    println!("writes were taken {:.1} s after there was room", start.elapsed().as_secs_f64());
    assert!(fleet.ended(SMALL).expect("it is ours").is_none());
    assert_eq!(fleet.starts(SMALL), 1, "without a restart");
    let refused = load.total.refused;
    write_for(&mut load, 500).expect("it takes writes");
    assert_eq!(load.total.refused, refused, "none is refused any more");

    fleet.kill(SMALL).expect("it runs");
    fleet.begin(SMALL).expect("it starts");
    fleet.wait_until_serving(DEADLINE).expect("it is back");
    let serves =
        |fleet: &Fleet| fleet.ask(SMALL, &["GET", &key]).is_ok_and(|said| said == Value::bulk("z"));
    fleet.wait_for(DEADLINE, "it serves what it had", serves).expect("it does");
    load.check(&address, Promise::All).expect("it answers");
    assert!(load.findings.holds(), "{:?}", load.findings.faults);
    println!("{:?}, nothing lost", load.total);
}
