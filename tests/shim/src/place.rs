//! Which folder is watched, where its shadow lies, and what concerns it.
//!
//! Told by the environment: `SLOTD_SHIM_WATCH` and `SLOTD_SHIM_SHADOW` (folders, the one not in the
//! other), `SLOTD_SHIM_BOOT_ID` (a file read instead of the kernel's), `SLOTD_SHIM_DELAY_US` (what
//! a sync takes at least) and `SLOTD_SHIM_LIE` (syncs of paths with this in them do nothing).
//! Invariant: a shadow that cannot be kept ends the process: a test must not pass by it.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use libc::c_int;

use crate::contents::Contents;
use crate::names::Names;

/// Syncs with less than this between them are one flush.
const ONE_FLUSH: Duration = Duration::from_millis(2);

/// What is watched.
pub(crate) struct Place {
    watch: PathBuf,
    shadow: PathBuf,
    /// Read instead of the kernel's.
    pub(crate) boot_id: Option<CString>,
    delay: Duration,
    lie: Option<String>,
    contents: Contents,
    names: Mutex<Names>,
    flush: Mutex<Flush>,
}

/// The flush under way and the longest.
struct Flush {
    start: Instant,
    end: Instant,
    longest: Duration,
}

impl Place {
    /// What this process is told to watch, if anything.
    pub(crate) fn of_process() -> Option<&'static Place> {
        static PLACE: OnceLock<Option<Place>> = OnceLock::new();
        PLACE.get_or_init(Place::from_env).as_ref()
    }

    fn from_env() -> Option<Place> {
        let var = std::env::var_os;
        let watch = fs::canonicalize(var("SLOTD_SHIM_WATCH")?).ok()?;
        let shadow = PathBuf::from(var("SLOTD_SHIM_SHADOW")?);
        let boot_id = var("SLOTD_SHIM_BOOT_ID").map(OsString::into_vec);
        let delay = var("SLOTD_SHIM_DELAY_US").and_then(|text| text.to_str()?.parse().ok());
        let now = Instant::now();
        Some(Place {
            watch,
            boot_id: boot_id.and_then(|path| CString::new(path).ok()),
            delay: Duration::from_micros(delay.unwrap_or(0)),
            lie: var("SLOTD_SHIM_LIE").and_then(|part| part.into_string().ok()),
            contents: Contents::new(shadow.join("contents")),
            names: Mutex::new(Names::new(shadow.join("names"))),
            shadow,
            flush: Mutex::new(Flush { start: now, end: now, longest: Duration::ZERO }),
        })
    }

    /// A file or folder was told to sync: its shadow follows. `None`: it does not concern us.
    pub(crate) fn synced(&self, fd: c_int) -> Option<()> {
        let path = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
        if !path.starts_with(&self.watch) {
            return None;
        }
        let start = Instant::now();
        if !self.lies_of(&path) {
            self.note(fd, &path).unwrap_or_else(|error| give_up(&path, &error));
        }
        if let Some(left) = self.delay.checked_sub(start.elapsed()) {
            std::thread::sleep(left);
        }
        self.note_flush(start).unwrap_or_else(|error| give_up(&path, &error));
        Some(())
    }

    /// Whether the disk says of it that it is synced and does nothing, to see it noticed.
    fn lies_of(&self, path: &Path) -> bool {
        self.lie.as_ref().is_some_and(|part| path.to_string_lossy().contains(part))
    }

    fn note(&self, fd: c_int, path: &Path) -> io::Result<()> {
        let file = fs::File::open(format!("/proc/self/fd/{fd}"))?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return lock(&self.names).synced(path, &id_of(&meta));
        }
        self.contents.synced(&file, &meta)
    }

    fn note_flush(&self, start: Instant) -> io::Result<()> {
        let mut flush = lock(&self.flush);
        if start > flush.end + ONE_FLUSH {
            flush.start = start;
        }
        flush.end = Instant::now();
        let took = flush.end - flush.start;
        if took > flush.longest {
            flush.longest = took;
            fs::write(self.shadow.join("longest_flush_us"), took.as_micros().to_string())?;
        }
        Ok(())
    }

    /// The folder that holds a name, if it is watched.
    fn parent_of(&self, dir: c_int, name: &CStr) -> Option<PathBuf> {
        let name = Path::new(OsStr::from_bytes(name.to_bytes()));
        let path = match (name.is_absolute(), dir) {
            (true, _) => name.to_owned(),
            (false, libc::AT_FDCWD) => std::env::current_dir().ok()?.join(name),
            (false, dir) => fs::read_link(format!("/proc/self/fd/{dir}")).ok()?.join(name),
        };
        let parent = path.parent()?.to_owned();
        parent.starts_with(&self.watch).then_some(parent)
    }
}

/// Does what makes, moves or removes names, and notes the folders they are in. One such call after
/// the other, so that the blocks are in the order of the changes.
pub(crate) fn naming(paths: &[(c_int, &CStr)], act: impl FnOnce() -> c_int) -> c_int {
    let Some(place) = Place::of_process() else { return act() };
    let mut parents: Vec<PathBuf> =
        paths.iter().filter_map(|(dir, name)| place.parent_of(*dir, name)).collect();
    parents.dedup();
    if parents.is_empty() {
        return act();
    }
    let mut names = lock(&place.names);
    let done = act();
    if done >= 0 {
        for parent in parents {
            let noted =
                fs::metadata(&parent).and_then(|meta| names.changed(&parent, &id_of(&meta)));
            // A folder that is gone has no names.
            if let Err(error) = noted
                && error.kind() != io::ErrorKind::NotFound
            {
                give_up(&parent, &error);
            }
        }
    }
    done
}

/// Inode and birth: an inode's number is soon another file's.
pub(crate) fn id_of(meta: &Metadata) -> String {
    let born = meta.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{}-{}", meta.ino(), born.unwrap_or_default().as_nanos())
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn give_up(path: &Path, error: &io::Error) -> ! {
    eprintln!("the shadow of {} cannot be kept: {error}", path.display());
    std::process::abort()
}
