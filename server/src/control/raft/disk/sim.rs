//! A simulated disk: what is not synced may be lost in any part at a crash; faults on demand.
//!
//! For tests and for the simulated world; no file is touched. The handle is shared: the journal
//! owns one clone, whoever breaks the disk another. Seeded: one seed, one outcome.
//! Invariant: a synced byte changes only by `flip`; a name only by a call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::RaftDisk;
use super::error::{DiskError, Doing};
use super::writer::{Desk, Job, Writer};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// The disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What a running process sees.
    files: BTreeMap<String, File>,
    /// What the folder would hold after a crash, by file: names are synced apart from bytes.
    synced_names: BTreeMap<String, u64>,
    /// Changes of names since the last sync of the folder, in order.
    renames: Vec<BTreeMap<String, u64>>,
    /// Bytes of files that have lost their names since the folder was synced.
    nameless: BTreeMap<u64, File>,
    next_id: u64,
    /// Bytes all files together may have; `None`: no end.
    room: Option<u64>,
    /// Calls that change something, until the power goes; `None`: it stays.
    calls_left: Option<u64>,
    calls: u64,
    syncs_fail: bool,
    writes_fail: bool,
}

#[derive(Clone, Debug, Default)]
struct File {
    id: u64,
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors the next sync writes. A sync that fails forgets them, as Linux does.
    dirty: BTreeSet<usize>,
}

impl SimDisk {
    /// An empty disk without end.
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    /// Limits the bytes of all files together; `None`: no limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.0.lock().room = bytes;
    }

    /// The power goes after so many more calls that change something: all later ones fail.
    pub fn stop_after(&self, calls: u64) {
        self.0.lock().calls_left = Some(calls);
    }

    /// Calls so far that changed something.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Syncs fail from now on.
    pub fn fail_syncs(&self) {
        self.0.lock().syncs_fail = true;
    }

    /// Writes fail from now on, though there is room.
    pub fn fail_writes(&self) {
        self.0.lock().writes_fail = true;
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.0.lock().used()
    }

    /// The names of the files.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().files.keys().cloned().collect()
    }

    /// A file's bytes, as a process sees them.
    pub fn bytes(&self, file: &str) -> Option<Vec<u8>> {
        self.0.lock().files.get(file).map(|file| file.now.clone())
    }

    /// Turns the bits of `mask` in one byte of a file, on the disk itself.
    pub fn flip(&self, file: &str, offset: usize, mask: u8) {
        if let Some(file) = self.0.lock().files.get_mut(file) {
            file.now[offset] ^= mask;
            file.synced[offset] ^= mask;
        }
    }

    /// The disk after the process was killed and the machine was not: what was written is there,
    /// synced or not. All faults are over.
    pub fn restart(&self) -> SimDisk {
        let state = self.0.lock();
        let after = State {
            files: state.files.clone(),
            synced_names: state.synced_names.clone(),
            renames: state.renames.clone(),
            nameless: state.nameless.clone(),
            next_id: state.next_id,
            ..State::default()
        };
        SimDisk(Arc::new(Mutex::new(after)))
    }

    /// The disk after the power went and came back: each unsynced sector is there or not, the
    /// changes of names up to some point are there.
    pub fn crash(&self, seed: u64) -> SimDisk {
        let state = self.0.lock();
        let mut dice = Dice(seed);
        let kept = dice.below(state.renames.len() as u64 + 1) as usize;
        let names = match kept.checked_sub(1) {
            Some(last) => &state.renames[last],
            None => &state.synced_names,
        };
        let all = state.files.values().chain(state.nameless.values());
        let by_id: BTreeMap<u64, &File> = all.map(|file| (file.id, file)).collect();
        let mut after = State { next_id: state.next_id, ..State::default() };
        for (name, id) in names {
            let Some(file) = by_id.get(id) else { continue };
            let bytes = file.after_crash(&mut dice);
            let file = File { id: *id, ..File::new(&bytes, &bytes) };
            after.files.insert(name.clone(), file);
        }
        after.synced_names = after.names();
        SimDisk(Arc::new(Mutex::new(after)))
    }
}

impl File {
    fn new(now: &[u8], synced: &[u8]) -> File {
        let dirty = (0..now.len().div_ceil(SECTOR_BYTES)).collect();
        File { id: 0, now: now.to_vec(), synced: synced.to_vec(), dirty }
    }

    fn sync(&mut self) {
        self.synced.resize(self.now.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(self.now.len());
            self.synced[start..end].copy_from_slice(&self.now[start..end]);
        }
    }

    fn after_crash(&self, dice: &mut Dice) -> Vec<u8> {
        // A length that was not synced is the old one or the new one; a new part holds zeros
        // where its bytes did not arrive.
        let length = match dice.coin() {
            true => self.now.len(),
            false => self.synced.len(),
        };
        let mut bytes = self.synced.clone();
        bytes.resize(length, 0);
        for start in (0..length).step_by(SECTOR_BYTES) {
            let end = (start + SECTOR_BYTES).min(length).min(self.now.len());
            if start < end && dice.coin() {
                bytes[start..end].copy_from_slice(&self.now[start..end]);
            }
        }
        bytes
    }
}

impl State {
    fn used(&self) -> u64 {
        self.files.values().map(|file| file.now.len() as u64).sum()
    }

    fn names(&self) -> BTreeMap<String, u64> {
        self.files.iter().map(|(name, file)| (name.clone(), file.id)).collect()
    }

    /// A call that changes something: does the disk still answer?
    fn change(&mut self, doing: Doing, file: &str) -> Result<(), DiskError> {
        self.calls += 1;
        match &mut self.calls_left {
            Some(0) => return Err(error(doing, file, false, "the power is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        match doing {
            Doing::Sync if self.syncs_fail => Err(error(doing, file, false, "input/output error")),
            Doing::Write if self.writes_fail => {
                Err(error(doing, file, false, "input/output error"))
            }
            _ => Ok(()),
        }
    }

    fn grow(&self, doing: Doing, file: &str, bytes: u64) -> Result<(), DiskError> {
        let own = self.files.get(file).map_or(0, |file| file.now.len() as u64);
        match self.room.is_some_and(|room| self.used() - own + bytes > room) {
            true => Err(error(doing, file, true, "no space left on the simulated disk")),
            false => Ok(()),
        }
    }

    fn put(&mut self, name: &str, mut file: File) {
        self.next_id += 1;
        file.id = self.next_id;
        if let Some(old) = self.files.insert(name.to_owned(), file) {
            self.nameless.insert(old.id, old);
        }
        self.renames.push(self.names());
    }

    fn file(&mut self, doing: Doing, name: &str) -> Result<&mut File, DiskError> {
        self.files.get_mut(name).ok_or_else(|| error(doing, name, false, "no such file"))
    }
}

fn error(doing: Doing, file: &str, full: bool, reason: &str) -> DiskError {
    DiskError { doing, file: file.to_owned(), full, reason: reason.to_owned() }
}

impl RaftDisk for SimDisk {
    fn list(&mut self) -> Result<Vec<(String, u64)>, DiskError> {
        let state = self.0.lock();
        Ok(state.files.iter().map(|(name, file)| (name.clone(), file.now.len() as u64)).collect())
    }

    fn read(&mut self, file: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, DiskError> {
        let bytes = self.bytes(file);
        if bytes.as_ref().is_some_and(|bytes| bytes.len() as u64 > max_bytes) {
            return Err(error(Doing::Read, file, false, "the file is too long"));
        }
        Ok(bytes)
    }

    fn allocate(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.change(Doing::Allocate, file)?;
        state.grow(Doing::Allocate, file, bytes)?;
        let zeros = vec![0; bytes as usize];
        state.put(file, File::new(&zeros, &zeros));
        Ok(())
    }

    fn write_new(&mut self, file: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.change(Doing::Write, file)?;
        state.grow(Doing::Write, file, bytes.len() as u64)?;
        state.put(file, File::new(bytes, &[]));
        Ok(())
    }

    fn write_at(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.change(Doing::Write, file)?;
        let file = state.file(Doing::Write, file)?;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let length = file.now.len().max(end);
        file.now.resize(length, 0);
        file.now[start..end].copy_from_slice(bytes);
        file.dirty.extend(start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
        Ok(())
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        let outcome = state.change(Doing::Sync, file);
        let file = state.file(Doing::Sync, file)?;
        match outcome {
            Ok(()) => file.sync(),
            Err(_) => file.dirty.clear(),
        }
        outcome
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.change(Doing::Rename, from)?;
        let Some(file) = state.files.remove(from) else {
            return Err(error(Doing::Rename, from, false, "no such file"));
        };
        if let Some(old) = state.files.insert(to.to_owned(), file) {
            state.nameless.insert(old.id, old);
        }
        let names = state.names();
        state.renames.push(names);
        Ok(())
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.change(Doing::Remove, file)?;
        if let Some(old) = state.files.remove(file) {
            state.nameless.insert(old.id, old);
            let names = state.names();
            state.renames.push(names);
        }
        Ok(())
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.change(Doing::Sync, "the folder")?;
        state.synced_names = state.names();
        state.renames.clear();
        state.nameless.clear();
        Ok(())
    }
}

/// Carries out each job at once, in the thread that hands it.
pub struct Inline<D>(Mutex<Writer<D>>);

impl<D: RaftDisk> Inline<D> {
    /// A desk over this writer.
    pub fn desk(writer: Writer<D>) -> Arc<Inline<D>>
    where
        D: 'static,
    {
        Arc::new(Inline(Mutex::new(writer)))
    }

    /// Tries again what waits for room.
    pub fn work(&self) {
        self.0.lock().work();
    }
}

impl<D: RaftDisk> Desk for Inline<D> {
    fn hand(&self, job: Job) {
        let mut writer = self.0.lock();
        writer.hand(job);
        writer.work();
    }
}

/// Numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn coin(&mut self) -> bool {
        self.roll() & 1 == 1
    }
}
