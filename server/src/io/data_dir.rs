//! A node's data directory: its lock, the file `node`, and the folder of the table's log.
//!
//! ```text
//!   DIR/lock                 held as long as the node runs
//!   DIR/node                 who the node is and the marks of its last run (persist/identity)
//!   DIR/peers                where other nodes were reached last (peer/)
//!   DIR/raft-CLUSTER-GEN/    the table's log and snapshot of one cluster and generation
//!   DIR/wal/, DIR/checkpoint/   keys (io/storage)
//! ```
//! Invariant: a start's claim on a boot number (`control/startup`), and what it found lost, are on
//! disk before anybody hears of it; the file `node` is replaced whole.

#![allow(unsafe_code, reason = "flock has no safe wrapper in this version of std")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use slots::{ClusterId, Kept, NodeId, Nonce, StoreId};

use crate::control::raft::disk::{SEGMENT_PREFIX, SNAPSHOT_FILE, VOTE_FILE};
use crate::control::seat::Identity;
use crate::control::startup::BootRecord;
use crate::io::clock;
use crate::persist::evidence::{self, Durability, Marks};
use crate::persist::identity::{MAX_IDENTITY_BYTES, NodeFile, Run};
use crate::persist::log::{Ids, Trust};

/// The folder of the log of keys, in the data directory.
pub const WAL_FOLDER: &str = "wal";
/// The folder of the checkpoint.
pub const CHECKPOINT_FOLDER: &str = "checkpoint";

/// A data directory that this process holds.
pub struct DataDir {
    dir: PathBuf,
    file: NodeFile,
    nonce: Nonce,
    kept: Kept,
    _lock: File,
}

/// A data directory that this process holds and has changed nothing in yet: what the marks of the
/// run before say is still there for a start that fails.
pub struct Looked {
    dir: PathBuf,
    file: NodeFile,
    /// The directory is new: there was no run before.
    is_new: bool,
    /// The operator says that it comes from a backup.
    restored: bool,
    lock: File,
}

impl Looked {
    /// Whose its log and checkpoint of keys are.
    pub fn ids(&self) -> Ids {
        let (node, store) = self.file.keys;
        Ids { node, store }
    }

    /// What may be torn in it.
    pub fn trust(&self) -> Trust {
        let NodeFile { stopped_cleanly, sync_failed, kernel, .. } = &self.file;
        let ended_well = *stopped_cleanly || is_this_kernel(kernel);
        match self.is_new || ended_well && !sync_failed && !self.restored {
            true => Trust::ProcessDied,
            false => Trust::PowerLost,
        }
    }

    /// Counts this start, which tries so hard to keep its writes. `has_log`: there is a log of
    /// keys, and it was found to be sound as far as a look tells.
    ///
    /// # Errors
    /// The file system's.
    pub fn begin(self, durability: Durability, has_log: bool) -> io::Result<DataDir> {
        let Looked { dir, mut file, is_new, restored, lock } = self;
        let found = match is_new {
            true => Kept::Nothing,
            false => evidence::kept(marks_of(&file, has_log, restored)),
        };
        let nonce = Nonce::from_bytes(random_bytes());
        file.note_start(found, Run { nonce, durability, kernel: kernel_boot_id() });
        let folder = dir.join(raft_dir_name(file.cluster, file.generation));
        file.log_lost |= file.founded && (restored || !holds_log(&folder)?);
        let kept = file.kept;
        let opened = DataDir { dir, file, nonce, kept, _lock: lock };
        opened.store()?;
        opened.remove_other_logs()?;
        Ok(opened)
    }
}

impl DataDir {
    /// Takes the directory and makes it if it is missing; nothing in it changes. Errors name the
    /// file: in use by another process, damaged, not writable.
    pub fn look(dir: &Path, restored: bool) -> io::Result<Looked> {
        fs::create_dir_all(dir).map_err(|error| of(dir, error))?;
        let lock = take_lock(dir)?;
        let path = dir.join("node");
        let found = match read_limited(&path)? {
            Some(text) => {
                let file = NodeFile::parse(&text)
                    .map_err(|error| io::Error::other(format!("{} {error}", path.display())))?;
                check_generation(&file, &path)?;
                Some(file)
            }
            None => None,
        };
        let is_new = found.is_none();
        let file = found.unwrap_or_else(fresh);
        Ok(Looked { dir: dir.to_owned(), file, is_new, restored, lock })
    }

    /// Notes how hard the node tries to keep writes from now on. A weaker mode is noted before it
    /// is used, a stronger one once all that was acknowledged before is as safe.
    pub fn note_durability(&mut self, durability: Durability) -> io::Result<()> {
        match self.file.weakest == durability {
            true => Ok(()),
            false => self.change(|file| file.weakest = durability),
        }
    }

    /// Notes that a sync has failed in this run: what it had acknowledged may be gone.
    pub fn note_sync_failed(&mut self) -> io::Result<()> {
        self.change(|file| file.sync_failed = true)
    }

    /// This start: it has claimed the number after the last confirmed one.
    pub fn identity(&self) -> Identity {
        let NodeFile { id: node, store, .. } = self.file;
        let boot = self.file.boots.confirmed.next();
        Identity { node, store, boot, nonce: self.nonce }
    }

    /// The boot numbers, as they are on disk.
    pub fn boots(&self) -> &BootRecord {
        &self.file.boots
    }

    /// Writes the boot numbers down; without claims also that the table knows of this start, and
    /// of what it found. To be called before the start plays a role.
    pub fn store_boots(&mut self, boots: BootRecord) -> io::Result<()> {
        match boots == self.file.boots {
            true => Ok(()),
            false => self.change(|file| file.note_boots(boots)),
        }
    }

    /// The cluster the node belongs to, and its generation.
    pub fn cluster(&self) -> (ClusterId, u64) {
        (self.file.cluster, self.file.generation)
    }

    /// Has the node founded or joined that cluster?
    pub fn is_founded(&self) -> bool {
        self.file.founded
    }

    /// What this start still has of what was acknowledged: the least that was found here since a
    /// start was last taken into the table.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// The folder of the table's log.
    pub fn raft_dir(&self) -> PathBuf {
        self.raft_dir_of(self.file.cluster, self.file.generation)
    }

    /// The folder that a cluster's log would have.
    pub fn raft_dir_of(&self, cluster: ClusterId, generation: u64) -> PathBuf {
        self.dir.join(raft_dir_name(cluster, generation))
    }

    /// Notes that the cluster's log now holds this node.
    pub fn note_founded(&mut self) -> io::Result<()> {
        self.change(|file| file.founded = true)
    }

    /// Goes over to another cluster or generation. The log of the old one is removed at the next
    /// start; `founded`: the log's folder was filled before.
    pub fn switch(&mut self, cluster: ClusterId, generation: u64, founded: bool) -> io::Result<()> {
        self.change(|file| {
            (file.cluster, file.generation) = (cluster, generation);
            (file.founded, file.log_lost) = (founded, false);
        })
    }

    /// Goes over to another cluster or generation whose log is sent by others: what an earlier
    /// try left of one is removed.
    pub fn switch_to_empty(&mut self, cluster: ClusterId, generation: u64) -> io::Result<()> {
        let folder = self.raft_dir_of(cluster, generation);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(of(&folder, error)),
            _ => self.switch(cluster, generation, true),
        }
    }

    /// In a cluster of its own that is still to be founded; `hard`: as another node. A node that
    /// stays itself keeps its store: the history of a cluster that it joins again names it.
    pub fn reset(&mut self, hard: bool) -> io::Result<()> {
        let nonce = self.nonce;
        self.change(|file| {
            if hard {
                file.id = NodeId::from_bytes(random_bytes());
                file.store = StoreId::from_bytes(random_bytes());
                file.boots = BootRecord::default();
            }
            file.boots.claim(nonce);
            (file.cluster, file.generation) = (ClusterId::from_bytes(random_bytes()), 1);
            (file.founded, file.log_lost) = (false, false);
        })
    }

    /// May what the node had promised in the table's log be lost?
    pub fn is_log_lost(&self) -> bool {
        self.file.log_lost
    }

    /// A majority has taken the node's vote away: what it promised binds nobody any more.
    pub fn note_vote_taken(&mut self) -> io::Result<()> {
        match self.file.log_lost {
            true => self.change(|file| file.log_lost = false),
            false => Ok(()),
        }
    }

    /// Notes that a later generation of the cluster was begun without this node: no start of this
    /// directory may take part in the old one again.
    pub fn note_superseded(&mut self, generation: u64) -> io::Result<()> {
        self.change(|file| file.superseded_by = file.superseded_by.max(generation))
    }

    /// The last thing an orderly end writes.
    pub fn note_stopped(&mut self) -> io::Result<()> {
        self.change(|file| file.stopped_cleanly = true)
    }

    /// Where other nodes were reached last, as the peers' address book wrote it.
    pub fn peers(&self) -> io::Result<String> {
        let path = self.dir.join("peers");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(of(&path, error)),
        }
    }

    /// Writes that down. It is a hint: not synced.
    pub fn write_peers(&self, text: &str) -> io::Result<()> {
        let (path, temporary) = (self.dir.join("peers"), self.dir.join("peers.tmp"));
        fs::write(&temporary, text).map_err(|error| of(&temporary, error))?;
        fs::rename(&temporary, &path).map_err(|error| of(&path, error))
    }

    fn change(&mut self, edit: impl FnOnce(&mut NodeFile)) -> io::Result<()> {
        let before = self.file.clone();
        edit(&mut self.file);
        self.store().inspect_err(|_| self.file = before)
    }

    fn store(&self) -> io::Result<()> {
        replace(&self.dir, "node", self.file.render().as_bytes())
    }

    /// Logs of clusters that the node left.
    fn remove_other_logs(&self) -> io::Result<()> {
        let own = raft_dir_name(self.file.cluster, self.file.generation);
        for entry in fs::read_dir(&self.dir).map_err(|error| of(&self.dir, error))? {
            let entry = entry?;
            let name = entry.file_name();
            let is_other = name.to_str().is_some_and(|n| n.starts_with("raft-") && n != own);
            if is_other && entry.file_type()?.is_dir() {
                let folder = entry.path();
                tracing::info!(folder = %folder.display(), "removing a former cluster's log");
                fs::remove_dir_all(entry.path()).map_err(|error| of(&entry.path(), error))?;
            }
        }
        Ok(())
    }
}

/// Is what a node has promised in a table's log in the folder: its vote, and entries or a snapshot?
fn holds_log(folder: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(of(folder, error)),
    };
    let (mut has_vote, mut has_log) = (false, false);
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_str().unwrap_or_default();
        let number = name.strip_prefix(SEGMENT_PREFIX).and_then(|n| n.parse::<u32>().ok());
        has_vote |= name == VOTE_FILE;
        has_log |= name == SNAPSHOT_FILE || number.is_some();
    }
    Ok(has_vote && has_log)
}

/// Refuses a directory of a generation that was given up: its nodes would serve the same slots.
fn check_generation(file: &NodeFile, path: &Path) -> io::Result<()> {
    let NodeFile { generation, superseded_by, .. } = file;
    if superseded_by <= generation {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{}: this node is of generation {generation} of its cluster, which was recovered at \
         generation {superseded_by} without it: start it in an empty folder and join it again",
        path.display()
    )))
}

fn raft_dir_name(cluster: ClusterId, generation: u64) -> String {
    let id = cluster.to_string();
    format!("raft-{}-{generation}", &id[..12])
}

fn fresh() -> NodeFile {
    let (id, store) = (NodeId::from_bytes(random_bytes()), StoreId::from_bytes(random_bytes()));
    NodeFile {
        id,
        store,
        keys: (id, store),
        cluster: ClusterId::from_bytes(random_bytes()),
        generation: 1,
        boots: BootRecord::default(),
        founded: false,
        log_lost: false,
        superseded_by: 0,
        weakest: Durability::Memory,
        stopped_cleanly: false,
        sync_failed: false,
        kernel: String::new(),
        kept: Kept::Nothing,
    }
}

/// The mode that counts is the one of the run that ended, not that of this one.
fn marks_of(file: &NodeFile, has_log: bool, restored: bool) -> Marks {
    Marks {
        weakest: file.weakest,
        stopped_cleanly: file.stopped_cleanly,
        same_kernel: is_this_kernel(&file.kernel),
        has_log,
        sync_failed: file.sync_failed,
        restored,
    }
}

fn is_this_kernel(kernel: &str) -> bool {
    !kernel.is_empty() && kernel == kernel_boot_id()
}

/// The kernel's own id of its start; empty where it has none, which equals no other.
fn kernel_boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Random bytes from the system.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&clock::random_u64().to_be_bytes()[..chunk.len()]);
    }
    bytes
}

fn of(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Two processes in one directory would both be the same node.
fn take_lock(dir: &Path) -> io::Result<File> {
    let path = dir.join("lock");
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true).truncate(false);
    let mut lock = options.open(&path).map_err(|error| of(&path, error))?;
    // SAFETY: the descriptor is open; flock touches no memory of ours.
    let result = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    if result != 0 {
        let mut holder = String::new();
        let _ = (&mut lock).take(20).read_to_string(&mut holder);
        return Err(io::Error::other(format!(
            "{} is in use by another slotd (process {}): give each node a --dir of its own",
            dir.display(),
            holder.trim(),
        )));
    }
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())?;
    Ok(lock)
}

fn read_limited(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(of(path, error)),
    };
    let mut text = String::new();
    // One more than the limit, so that a longer file is seen to be longer.
    let limit = MAX_IDENTITY_BYTES as u64 + 1;
    file.take(limit).read_to_string(&mut text).map_err(|error| of(path, error))?;
    Ok(Some(text))
}

/// Replaces a file whole, on disk when this returns.
fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (path, temporary) = (dir.join(name), dir.join(format!("{name}.tmp")));
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| of(&temporary, error))?;
    fs::rename(&temporary, &path).map_err(|error| of(&path, error))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| of(dir, error))
}

#[cfg(test)]
mod tests {
    use slots::Boot;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            let name = format!("slotd-data-dir-{:016x}", clock::random_u64());
            Scratch(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn open(dir: &Scratch) -> DataDir {
        let looked = DataDir::look(&dir.0, false).expect("the directory opens");
        looked.begin(Durability::Memory, false).expect("the start is counted")
    }

    #[test]
    fn a_number_is_claimed_by_each_start_until_it_is_confirmed() {
        let dir = Scratch::new();
        let first = open(&dir).identity();
        let second = open(&dir).identity();
        assert_eq!((first.node, first.store), (second.node, second.store));
        assert_eq!((first.boot, second.boot), (Boot(1), Boot(1)));
        assert_ne!(first.nonce, second.nonce);
        let mut third = open(&dir);
        assert_eq!(third.boots().claims.len(), 3);
        let confirmed = BootRecord { confirmed: Boot(1), claims: Vec::new() };
        third.store_boots(confirmed).expect("it is stored");
        drop(third);
        assert_eq!(open(&dir).identity().boot, Boot(2));
    }

    #[test]
    fn a_directory_in_use_is_refused_with_its_holder() {
        let dir = Scratch::new();
        let held = open(&dir);
        let error = DataDir::look(&dir.0, false).err().expect("it is held").to_string();
        let pid = std::process::id();
        assert!(error.contains(&format!("(process {pid})")), "{error}");
        drop(held);
        assert_eq!(open(&dir).boots().claims.len(), 2);
    }

    #[test]
    fn what_a_start_found_counts_until_it_is_in_the_table() {
        use std::os::unix::fs::MetadataExt;
        let dir = Scratch::new();
        let path = dir.0.join("node");
        let holds = |line: &str| {
            let text = fs::read_to_string(&path).expect("it is there");
            text.lines().any(|found| found == line)
        };
        drop(open(&dir));
        let mut data = open(&dir);
        assert_eq!(data.kept(), Kept::Nothing);
        assert!(holds("confirmed 0") && holds("kept nothing"));
        let seated = BootRecord { confirmed: Boot(1), claims: Vec::new() };
        data.store_boots(seated.clone()).expect("it is stored");
        assert!(holds("confirmed 1") && holds("kept all"));
        assert_eq!(data.kept(), Kept::Nothing, "this start found what it found");
        let file = || fs::metadata(&path).expect("it is there").ino();
        let written = file();
        data.store_boots(seated).expect("it is stored");
        assert_eq!(file(), written, "nothing was written again");
        drop(data);
        open(&dir);
        assert!(holds("confirmed 1") && holds("kept nothing"), "there is no log of keys");
    }

    #[test]
    fn the_log_of_a_former_cluster_is_removed_at_the_next_start() {
        let dir = Scratch::new();
        let mut data = open(&dir);
        let old = data.raft_dir();
        fs::create_dir_all(&old).expect("a folder");
        let cluster = ClusterId::from_bytes([5; 20]);
        data.switch(cluster, 4, true).expect("it switches");
        fs::create_dir_all(data.raft_dir()).expect("a folder");
        drop(data);
        let data = open(&dir);
        assert_eq!((data.cluster(), data.is_founded()), ((cluster, 4), true));
        assert!(!old.exists() && data.raft_dir().exists());
    }

    #[test]
    fn a_generation_that_was_given_up_does_not_start_again() {
        let dir = Scratch::new();
        let mut data = open(&dir);
        data.note_superseded(2).expect("it is stored");
        drop(data);
        let error = DataDir::look(&dir.0, false).err().expect("it is given up").to_string();
        assert!(error.contains("recovered at generation 2"), "{error}");
    }

    #[test]
    fn a_node_that_becomes_another_keeps_the_ids_of_its_files() {
        let dir = Scratch::new();
        let mut data = open(&dir);
        let (first, keys) = (data.identity(), data.file.keys);
        data.reset(true).expect("it is stored");
        assert_ne!(data.identity().node, first.node);
        drop(data);
        let looked = DataDir::look(&dir.0, false).expect("it opens");
        assert_eq!((looked.ids().node, looked.ids().store), keys);
    }

    /// Each row of the evidence table as a start finds it, by what the file says of the last run.
    #[test]
    fn a_start_judges_the_run_before_it_and_what_may_be_torn() {
        let check = |edit: &dyn Fn(&mut NodeFile), restored, has_log, want| {
            let dir = Scratch::new();
            let mut data = open(&dir);
            data.store_boots(BootRecord { confirmed: Boot(1), claims: Vec::new() })
                .expect("seated");
            data.change(edit).expect("it is stored");
            drop(data);
            let looked = DataDir::look(&dir.0, restored).expect("it opens");
            let trust = looked.trust();
            let begun = looked.begin(Durability::Memory, has_log).expect("it begins");
            assert_eq!((begun.kept(), trust), want);
        };
        let everysec = |file: &mut NodeFile| file.weakest = Durability::Everysec;
        let clean = |file: &mut NodeFile| {
            (file.weakest, file.stopped_cleanly) = (Durability::Everysec, true);
            file.kernel = "another".into();
        };
        let power = |file: &mut NodeFile| {
            (file.weakest, file.kernel) = (Durability::Everysec, "another".into());
        };
        let always = |file: &mut NodeFile| {
            (file.weakest, file.kernel) = (Durability::Always, "another".into());
        };
        let failed = |file: &mut NodeFile| {
            (file.weakest, file.sync_failed) = (Durability::Always, true);
        };
        use Kept::{All, Nothing, Tail};
        use Trust::{PowerLost, ProcessDied};
        check(&clean, false, true, (All, ProcessDied));
        check(&everysec, false, true, (All, ProcessDied));
        check(&power, false, true, (Tail, PowerLost));
        check(&always, false, true, (All, PowerLost));
        check(&everysec, false, false, (Nothing, ProcessDied));
        check(&failed, false, true, (Tail, PowerLost));
        check(&clean, true, true, (Tail, PowerLost));
        check(&|_| {}, false, true, (Nothing, ProcessDied));
    }

    #[test]
    fn a_damaged_node_file_stops_the_start() {
        let dir = Scratch::new();
        drop(open(&dir));
        let path = dir.0.join("node");
        let text =
            fs::read_to_string(&path).expect("it is there").replace("confirmed 0", "confirmed 9");
        fs::write(&path, text).expect("it is written");
        let error = DataDir::look(&dir.0, false).err().expect("it is damaged").to_string();
        assert!(error.contains("damaged or edited"), "{error}");
    }
}
