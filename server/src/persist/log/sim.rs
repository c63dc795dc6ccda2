//! A simulated disk for the log: what is not synced may be lost in any part; faults on demand.
//!
//! For tests and for the simulated world; no file is touched. The handle is shared: the log owns
//! one clone, whoever breaks the disk another. Seeded: one seed, one outcome. Every write to a
//! mapped file is a step, too, so that a process can die within an append.
//! Invariant: a synced byte changes only by `flip`; a name only by a call.

mod append;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{Fill, LogFile, Piece, WalDisk};
use super::error::{DiskError, Doing};

/// The disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<u64, File>,
    /// What a running process sees.
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    /// The names after each change since the last sync of the folder.
    renames: Vec<BTreeMap<String, u64>>,
    next_id: u64,
    /// Bytes all files together may have.
    room: Option<u64>,
    /// The call that finds the disk full.
    full_at: Option<u64>,
    life: Arc<Mutex<Life>>,
    calls: u64,
    syncs_fail: bool,
    syncs: u64,
    readied: Vec<(String, u64, usize)>,
    dice: Dice,
}

/// The life of a process, which may use several folders.
#[derive(Debug, Default)]
struct Life {
    /// Steps until it dies: writes and calls.
    steps_left: Option<u64>,
    steps: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors the next sync writes; a sync that fails forgets them, as Linux does.
    dirty: BTreeSet<usize>,
    /// Parts that are owned.
    owned: BTreeSet<(u64, u64)>,
}

/// What a disk writes whole or not at all: the smallest there is.
const SECTOR_BYTES: usize = 512;

impl SimDisk {
    /// An empty disk without end. The seed decides what is written before its sync.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(State { dice: Dice(seed), ..State::default() })))
    }

    /// Limits the bytes of all files together; `None`: no limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.0.lock().room = bytes;
    }

    /// The call with this number, from now, finds the disk full if it wants room.
    pub fn full_at(&self, calls: u64) {
        let mut state = self.0.lock();
        state.full_at = Some(state.calls + calls);
    }

    /// The process dies after so many more steps: later calls fail, later writes do nothing.
    pub fn stop_after(&self, steps: u64) {
        self.0.lock().life.lock().steps_left = Some(steps);
    }

    /// This is another folder of the process that uses `other`: they die together.
    pub fn lives_with(&self, other: &SimDisk) {
        let life = Arc::clone(&other.0.lock().life);
        self.0.lock().life = life;
    }

    /// Has it died?
    pub fn is_stopped(&self) -> bool {
        self.0.lock().life.lock().steps_left == Some(0)
    }

    /// Writes and calls so far.
    pub fn steps(&self) -> u64 {
        self.0.lock().life.lock().steps
    }

    /// Syncs of files so far.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// The parts of files that were made ready since the last look.
    pub fn take_readied(&self) -> Vec<(String, u64, usize)> {
        std::mem::take(&mut self.0.lock().readied)
    }

    /// Syncs fail from now on.
    pub fn fail_syncs(&self) {
        self.0.lock().syncs_fail = true;
    }

    /// The names of the files.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// A file's bytes, as a process sees them.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.0.lock();
        Some(state.files[state.names.get(name)?].now.clone())
    }

    /// Puts a file there, synced.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.0.lock();
        state.put(name, bytes);
        state.synced_names = state.names.clone();
    }

    /// Takes a file away, synced.
    pub fn take_away(&self, name: &str) {
        let mut state = self.0.lock();
        state.names.remove(name);
        state.synced_names = state.names.clone();
    }

    /// Turns the bits of `mask` in one byte of a file, on the disk itself.
    pub fn flip(&self, name: &str, offset: usize, mask: u8) {
        let mut state = self.0.lock();
        let id = state.names[name];
        if let Some(file) = state.files.get_mut(&id) {
            file.now[offset] ^= mask;
            if let Some(byte) = file.synced.get_mut(offset) {
                *byte ^= mask;
            }
        }
    }

    /// The disk after the process died and the machine did not: what was written is there.
    pub fn restart(&self) -> SimDisk {
        let state = self.0.lock();
        let mut files = state.files.clone();
        files.values_mut().for_each(|file| file.owned.clear());
        let after = State {
            files,
            names: state.names.clone(),
            synced_names: state.synced_names.clone(),
            renames: state.renames.clone(),
            next_id: state.next_id,
            dice: state.dice.clone(),
            ..State::default()
        };
        SimDisk(Arc::new(Mutex::new(after)))
    }

    /// The disk after the power went and came back: each unsynced sector, or each page of 4 KiB,
    /// is there or not; the changes of names up to some point are there.
    pub fn crash(&self, seed: u64) -> SimDisk {
        let state = self.0.lock();
        let mut dice = Dice(seed);
        let sectors = [1, 8][dice.below(2) as usize];
        let kept = dice.below(state.renames.len() as u64 + 1) as usize;
        let names = match kept.checked_sub(1) {
            Some(last) => &state.renames[last],
            None => &state.synced_names,
        };
        let mut after = State { next_id: state.next_id, dice: dice.clone(), ..State::default() };
        for id in names.values() {
            let bytes = state.files[id].after_crash(&mut dice, sectors);
            let file = File { now: bytes.clone(), synced: bytes, ..File::default() };
            after.files.insert(*id, file);
        }
        after.names = names.clone();
        after.synced_names = names.clone();
        SimDisk(Arc::new(Mutex::new(after)))
    }
}

impl File {
    fn write_back(&mut self, sector: usize) {
        // A file that grew may have got only a part of its length.
        let end = (sector * SECTOR_BYTES + SECTOR_BYTES).min(self.synced.len());
        let start = (sector * SECTOR_BYTES).min(end);
        self.synced[start..end].copy_from_slice(&self.now[start..end]);
    }

    fn after_crash(&self, dice: &mut Dice, sectors: usize) -> Vec<u8> {
        let mut after = self.clone();
        if self.now.len() > self.synced.len() {
            let grown = dice.below((self.now.len() - self.synced.len()) as u64 + 1);
            after.synced.resize(self.synced.len() + grown as usize, 0);
        }
        let pages: BTreeSet<usize> = self.dirty.iter().map(|sector| sector / sectors).collect();
        for page in pages.into_iter().filter(|_| dice.coin()) {
            let within = page * sectors..(page + 1) * sectors;
            self.dirty.range(within).for_each(|sector| after.write_back(*sector));
        }
        after.synced
    }
}

impl State {
    fn step(&mut self) -> bool {
        let mut life = self.life.lock();
        match &mut life.steps_left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        life.steps += 1;
        true
    }

    fn call(&mut self, doing: Doing, file: &str) -> Result<(), DiskError> {
        self.calls += 1;
        match self.step() {
            true => Ok(()),
            false => Err(error(doing, file, "the process is dead")),
        }
    }

    fn put(&mut self, name: &str, bytes: &[u8]) {
        let file = File { now: bytes.to_vec(), synced: bytes.to_vec(), ..File::default() };
        self.next_id += 1;
        self.files.insert(self.next_id, file);
        self.names.insert(name.to_owned(), self.next_id);
        self.renames.push(self.names.clone());
    }

    fn sync(&mut self, id: u64, name: &str) -> Result<(), DiskError> {
        self.call(Doing::Sync, name)?;
        self.syncs += 1;
        let fails = self.syncs_fail;
        let file = self.files.get_mut(&id).expect("an open file is there");
        let dirty = std::mem::take(&mut file.dirty);
        if fails {
            return Err(error(Doing::Sync, name, "input/output error"));
        }
        file.synced.resize(file.now.len(), 0);
        dirty.into_iter().for_each(|sector| file.write_back(sector));
        Ok(())
    }

    fn id(&self, doing: Doing, name: &str) -> Result<u64, DiskError> {
        self.names.get(name).copied().ok_or_else(|| error(doing, name, "no such file"))
    }
}

fn error(doing: Doing, file: &str, reason: &str) -> DiskError {
    DiskError { doing, file: file.to_owned(), reason: reason.to_owned() }
}

impl WalDisk for SimDisk {
    type File = SimFile;

    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        let state = self.0.lock();
        let length = |id: &u64| state.files[id].now.len() as u64;
        Ok(state.names.iter().map(|(name, id)| (name.clone(), length(id))).collect())
    }

    fn read(&self, file: &str, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let state = self.0.lock();
        let bytes = &state.files[&state.id(Doing::Read, file)?].now;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let range = offset..offset.saturating_add(into.len());
        let part = bytes.get(range).ok_or_else(|| error(Doing::Read, file, "the file ends"))?;
        into.copy_from_slice(part);
        Ok(())
    }

    fn open(&self, file: &str, name: &str, number: u64) -> Result<Arc<SimFile>, DiskError> {
        let mut state = self.0.lock();
        state.call(Doing::Open, file)?;
        let id = state.id(Doing::Open, file)?;
        let disk = self.clone();
        Ok(Arc::new(SimFile { disk, id, number, name: name.to_owned() }))
    }

    fn create(&self, file: &str, bytes: u64, _: Fill) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.call(Doing::Create, file)?;
        let used: u64 = state.names.values().map(|id| state.files[id].now.len() as u64).sum();
        let is_full = state.room.is_some_and(|room| used + bytes > room);
        if is_full || (state.full_at.is_some_and(|at| at <= state.calls) && bytes > 0) {
            state.full_at = None;
            return Err(error(Doing::Create, file, "no space left on the simulated disk"));
        }
        state.put(file, &vec![0; bytes as usize]);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.call(Doing::Rename, from)?;
        let id = state.id(Doing::Rename, from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), id);
        let names = state.names.clone();
        state.renames.push(names);
        Ok(())
    }

    fn remove(&self, file: &str) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.call(Doing::Remove, file)?;
        if state.names.remove(file).is_some() {
            let names = state.names.clone();
            state.renames.push(names);
        }
        Ok(())
    }

    fn sync_folder(&self) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        state.call(Doing::Sync, "the folder")?;
        state.synced_names = state.names.clone();
        state.renames.clear();
        Ok(())
    }
}

/// A file of it.
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    id: u64,
    number: u64,
    name: String,
}

impl LogFile for SimFile {
    type Piece = SimPiece;

    fn number(&self) -> u64 {
        self.number
    }

    fn piece(self: &Arc<Self>, offset: u64, bytes: usize) -> SimPiece {
        let mut state = self.disk.0.lock();
        let file = state.files.get_mut(&self.id).expect("an open file is there");
        let part = (offset, offset + bytes as u64);
        assert!(part.1 <= file.now.len() as u64, "{part:?} of {}", self.name);
        let overlaps = file.owned.iter().any(|(from, to)| *from < part.1 && part.0 < *to);
        assert!(!overlaps, "{part:?} of {} is owned", self.name);
        file.owned.insert(part);
        SimPiece { file: Arc::clone(self), offset: offset as usize, bytes }
    }

    /// All of it is in memory.
    fn load(&self) {}

    fn ready(&self, offset: u64, bytes: usize) {
        self.disk.0.lock().readied.push((self.name.clone(), offset, bytes));
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.0.lock().sync(self.id, &self.name)
    }
}

/// A part of it.
#[derive(Debug)]
pub struct SimPiece {
    file: Arc<SimFile>,
    offset: usize,
    bytes: usize,
}

impl Piece for SimPiece {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes, "{at} and {} in {}", bytes.len(), self.bytes);
        let mut state = self.file.disk.0.lock();
        if !state.step() {
            return;
        }
        let (id, start) = (self.file.id, self.offset + at);
        let early = state.dice.below(4) == 0;
        let sector = start / SECTOR_BYTES;
        let Some(file) = state.files.get_mut(&id) else { return };
        file.now[start..start + bytes.len()].copy_from_slice(bytes);
        file.dirty.extend(sector..(start + bytes.len()).div_ceil(SECTOR_BYTES));
        // The kernel writes when it likes: what is there now may reach the disk without what
        // comes next.
        if early && file.dirty.contains(&sector) {
            file.write_back(sector);
        }
    }

    fn publish(&mut self, at: usize, word: [u8; 8]) {
        assert!((self.offset + at).is_multiple_of(8), "a word lies at a multiple of 8");
        self.write(at, &word);
    }
}

impl Drop for SimPiece {
    fn drop(&mut self) {
        let part = (self.offset as u64, (self.offset + self.bytes) as u64);
        let mut state = self.file.disk.0.lock();
        if let Some(file) = state.files.get_mut(&self.file.id) {
            file.owned.remove(&part);
        }
    }
}

/// Numbers from a seed (splitmix64).
#[derive(Clone, Debug, Default)]
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

    /// Yes or no.
    pub fn coin(&mut self) -> bool {
        self.roll() & 1 == 1
    }
}
