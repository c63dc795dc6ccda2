//! Rounds of syncs: what is written when one begins is safe when it ends.
//!
//! ```text
//!   begun +1 --> take files, lane by lane --> sync each once --> synced of each lane --> done
//! ```
//! Not when they are made (`io/wal`). Invariant: `synced` of a lane is told only after a sync that
//! began after the copy returned; when a round is done, all appended before it began is safe, that
//! which waited in memory, too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use parking_lot::Mutex;

use super::disk::LogFile;
use super::error::{DiskError, Doing};
use super::wal::{Lane, Wal};

/// What a round did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Round {
    /// Files that were synced.
    pub files: usize,
    /// Bytes of records that became safe.
    pub bytes: u64,
}

/// How far the rounds are. On a line of its own: an append reads `sync_sleeps`.
#[repr(align(128))]
pub(super) struct Rounds {
    /// Who syncs sleeps and wants to be woken by the next append.
    sync_sleeps: AtomicBool,
    /// Who syncs waits for others to come.
    is_gathering: AtomicBool,
    turn: Turn,
}

#[repr(align(128))]
struct Turn {
    /// Held during a round.
    state: Mutex<TurnState>,
    begun: AtomicU64,
    done: AtomicU64,
    /// The last round that someone waits for.
    asked: AtomicU64,
    syncs_total: AtomicU64,
    rounds_total: AtomicU64,
}

struct TurnState {
    /// `Err` once a sync has failed, for ever.
    outcome: Result<(), DiskError>,
    owed: Option<Owed>,
}

/// The oldest round that is not done though its syncs are: records waited in memory when it began.
struct Owed {
    round: u64,
    /// Of each lane, when it began.
    tails: Vec<u64>,
}

impl Rounds {
    pub(super) fn new() -> Rounds {
        let turn = Turn {
            state: Mutex::new(TurnState { outcome: Ok(()), owed: None }),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            syncs_total: AtomicU64::new(0),
            rounds_total: AtomicU64::new(0),
        };
        Rounds { sync_sleeps: AtomicBool::new(false), is_gathering: AtomicBool::new(false), turn }
    }

    pub(super) fn syncs_total(&self) -> u64 {
        self.turn.syncs_total.load(Relaxed)
    }

    pub(super) fn rounds_total(&self) -> u64 {
        self.turn.rounds_total.load(Relaxed)
    }

    /// To be read under the lane's lock that was taken for an append, see `Wal::doze`.
    #[inline]
    pub(super) fn sync_sleeps(&self) -> bool {
        self.sync_sleeps.load(Relaxed)
    }

    /// Who syncs is woken by the one who gets a yes.
    pub(super) fn wake(&self) -> bool {
        self.sync_sleeps.swap(false, Relaxed)
    }
}

impl<F: LogFile> Wal<F> {
    /// Makes everything that is written now safe, with one sync for each file that has unsynced
    /// bytes.
    ///
    /// # Errors
    /// A sync that failed. It is not tried again: every later round says the same.
    pub fn sync_round(&self) -> Result<Round, DiskError> {
        let Turn { state, begun, done, asked, syncs_total, rounds_total } = &self.rounds.turn;
        // The one lock held over IO: it is the turn to sync, nothing else is behind it.
        let mut turn = state.lock();
        turn.outcome.clone()?;
        // If it panics it has taken what it did not sync: that is a round that failed.
        let (file, reason) = ("the write-ahead log".to_owned(), "a sync panicked".to_owned());
        turn.outcome = Err(DiskError { doing: Doing::Sync, file, reason });
        // Counted before any lane is looked at: whoever appended and then read the count before
        // this is seen by the round, as the lane's lock orders the two.
        let number = begun.fetch_add(1, Relaxed) + 1;
        let mut files = Vec::new();
        let take = |lane: &Lane<F>| {
            let mut state = lane.state.lock();
            (state.take_unsynced(&mut files), state.tail())
        };
        let (written, tails): (Vec<u64>, Vec<u64>) = self.lanes.iter().map(take).unzip();
        let owed = turn.owed.take().unwrap_or(Owed { round: number, tails });
        files.sort_by_key(|file| file.number());
        files.dedup_by_key(|file| file.number());
        for file in &files {
            if let Err(error) = file.sync() {
                turn.outcome = Err(error.clone());
                return Err(error);
            }
        }
        let mut round = Round { files: files.len(), bytes: 0 };
        // Counted before it is told: the figures never show its outcome without it.
        syncs_total.fetch_add(round.files as u64, Relaxed);
        rounds_total.fetch_add(u64::from(round.files > 0), Relaxed);
        for (lane, written) in self.lanes.iter().zip(written) {
            round.bytes += written - lane.marks.synced.swap(written, AcqRel);
        }
        let reached = |(lane, tail): (&Lane<F>, &u64)| *tail <= lane.marks.synced.load(Relaxed);
        let is_done = self.lanes.iter().zip(&owed.tails).all(reached);
        let before = done.load(Relaxed);
        match is_done {
            true => done.store(owed.round, SeqCst),
            false => turn.owed = Some(owed),
        }
        turn.outcome = Ok(());
        drop(turn);
        // Looked at after `done` is stored: either this sees the ask, or who asks sees `done`.
        if round.bytes > 0 || is_done && asked.load(SeqCst) > before {
            self.tell_progress();
        }
        Ok(round)
    }

    /// How many rounds have begun. Whoever reads `n` after an append knows it safe once
    /// `rounds_done` is greater than `n`.
    #[inline]
    pub fn rounds_begun(&self) -> u64 {
        self.rounds.turn.begun.load(Relaxed)
    }

    /// Asks for a round that begins after now: all that is appended by now, waiting or not, is
    /// safe once `rounds_done` has reached this number. Look at `rounds_done` after this call, and
    /// again each time `progress` rings. Each policy makes the round: `Always` and `No` at once,
    /// `EverySec` within its second; on a full disk it is not done until there is room.
    pub fn round_to_wait_for(&self) -> u64 {
        let Turn { begun, asked, .. } = &self.rounds.turn;
        let round = begun.load(Relaxed) + 1;
        asked.fetch_max(round, SeqCst);
        // The bell's lock orders the ask before the look of the one it wakes.
        (self.bells.sync)();
        round
    }

    /// All that was appended before the round with this number began is safe. Never falls.
    #[inline]
    pub fn rounds_done(&self) -> u64 {
        self.rounds.turn.done.load(SeqCst)
    }

    /// Someone waits for a round that is not done.
    pub fn is_round_wanted(&self) -> bool {
        self.rounds.turn.asked.load(SeqCst) > self.rounds_done()
    }

    /// The keeper met what a failed sync is: nothing is synced any more.
    pub(super) fn poison(&self, error: &DiskError) {
        let mut turn = self.rounds.turn.state.lock();
        if turn.outcome.is_ok() {
            turn.outcome = Err(error.clone());
        }
    }

    /// Who syncs wants to sleep: false if there is something to sync. After true the next append,
    /// and the next record that has waited and is written, rings the bell.
    pub fn doze(&self) -> bool {
        // An append that takes a lane's lock after this has looked at the lane sees the flag; one
        // that took it before is seen here.
        self.rounds.sync_sleeps.store(true, Relaxed);
        let is_idle = !self.lanes.iter().any(|lane| lane.state.lock().is_unsynced());
        if !is_idle {
            self.stay_awake();
        }
        is_idle
    }

    /// Who syncs waits for others to come, or no more.
    pub fn note_gathering(&self, is_gathering: bool) {
        self.rounds.is_gathering.store(is_gathering, SeqCst);
    }

    /// All are there who were there before: rings the bell if that is waited for. A ring that is
    /// missed costs a pause.
    pub fn all_are_back(&self) {
        if self.rounds.is_gathering.load(SeqCst) {
            (self.bells.sync)();
        }
    }

    /// Appends from now on ring no bell for the one who syncs.
    pub fn stay_awake(&self) {
        self.rounds.sync_sleeps.store(false, Relaxed);
    }
}
