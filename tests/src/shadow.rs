//! A power loss for real processes: a data folder becomes what its disk may hold without power.
//!
//! `tests/shim`, preloaded into the server, keeps what was synced, in formats described there. A
//! cut comes when the process was killed: a page that differs from its synced self is one or the
//! other, by the dice; names are those of some moment since their folder's last sync.
//! Invariant: what was synced, and not changed since, is there.

use crate::dice::Dice;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Disks write whole sectors; most write whole pages of what was mapped.
const UNIT_BYTES: [usize; 2] = [4096, 512];
/// How likely a page that was not synced is there all the same, file by file.
const KEPT_PERCENT: [u64; 5] = [0, 10, 50, 90, 100];

/// The shadow of one server's data folder.
pub struct Shadow {
    watch: PathBuf,
    home: PathBuf,
    library: PathBuf,
    cuts: u32,
    /// Whether pages tear; if not, nothing that was not synced is there.
    pub tears: bool,
    /// Whether names are safe at once, as on file systems that write them down in order with data.
    pub names_stay: bool,
}

/// What a cut did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Damage {
    /// Pages or sectors that went back.
    pub units_back: u64,
    /// Names that are not those of the moment of the cut.
    pub names_back: u64,
}

/// A name of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    is_folder: bool,
    id: String,
    name: String,
}

impl Shadow {
    /// The shadow of `watch` as it is now, kept in `home`.
    pub fn new(watch: PathBuf, home: PathBuf) -> io::Result<Self> {
        let watch = fs::canonicalize(watch)?;
        let shadow =
            Self { watch, home, library: library()?, cuts: 0, tears: true, names_stay: false };
        shadow.adopt()?;
        Ok(shadow)
    }

    /// What the server is started with.
    pub fn env(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.library.clone().into()),
            ("SLOTD_SHIM_WATCH", self.watch.clone().into()),
            ("SLOTD_SHIM_SHADOW", self.home.join("shadow").into()),
            ("SLOTD_SHIM_BOOT_ID", self.home.join("boot_id").into()),
        ]
    }

    /// The longest flush since the last cut: syncs with hardly anything between them.
    pub fn longest_flush(&self) -> Duration {
        let text = fs::read_to_string(self.home.join("shadow/longest_flush_us"));
        Duration::from_micros(text.ok().and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// The power is gone: the folder becomes what is left. No process may use it.
    pub fn cut(&mut self, dice: &mut Dice) -> io::Result<Damage> {
        let mut cut = Cut {
            shadow: self.home.join("shadow"),
            present: HashMap::new(),
            tears: self.tears,
            names_stay: self.names_stay,
            dice,
            damage: Damage::default(),
        };
        cut.find_files(&self.watch)?;
        let left = self.home.join("left");
        fs::create_dir_all(&left)?;
        cut.folder(&id_of(&fs::metadata(&self.watch)?), Some(&self.watch), &left)?;
        let damage = cut.damage;
        fs::remove_dir_all(&self.watch)?;
        fs::rename(&left, &self.watch)?;
        self.cuts += 1;
        self.adopt()?;
        Ok(damage)
    }

    /// Takes the folder as it is for safe, under a kernel of its own.
    fn adopt(&self) -> io::Result<()> {
        let shadow = self.home.join("shadow");
        match fs::remove_dir_all(&shadow) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(shadow.join("contents"))?;
        fs::create_dir_all(shadow.join("names"))?;
        adopt_folder(&self.watch, &shadow)?;
        fs::write(self.home.join("boot_id"), format!("00000000-cut-{}\n", self.cuts))
    }
}

fn adopt_folder(folder: &Path, shadow: &Path) -> io::Result<()> {
    let names = listing(folder)?;
    let text: String = names.iter().map(Name::line).collect();
    let id = id_of(&fs::metadata(folder)?);
    fs::write(shadow.join("names").join(id), text + "end\n")?;
    for name in names {
        let path = folder.join(&name.name);
        match name.is_folder {
            true => adopt_folder(&path, shadow)?,
            false => drop(fs::copy(&path, shadow.join("contents").join(&name.id))?),
        }
    }
    Ok(())
}

impl Name {
    fn line(&self) -> String {
        let kind = if self.is_folder { 'd' } else { 'f' };
        format!("{kind} {} {}\n", self.id, self.name)
    }

    fn parse(line: &str) -> Option<Name> {
        let mut words = line.splitn(3, ' ');
        let (kind, id, name) = (words.next()?, words.next()?, words.next()?);
        Some(Name { is_folder: kind == "d", id: id.into(), name: name.into() })
    }
}

/// One cut.
struct Cut<'a> {
    shadow: PathBuf,
    /// Files that are there, by id.
    present: HashMap<String, PathBuf>,
    tears: bool,
    names_stay: bool,
    dice: &'a mut Dice,
    damage: Damage,
}

impl Cut<'_> {
    fn find_files(&mut self, folder: &Path) -> io::Result<()> {
        for name in listing(folder)? {
            let path = folder.join(&name.name);
            if name.is_folder {
                self.find_files(&path)?;
            }
            self.present.insert(name.id, path);
        }
        Ok(())
    }

    /// Makes what is left of a folder: its names of some moment, and what they name.
    fn folder(&mut self, id: &str, present: Option<&Path>, to: &Path) -> io::Result<()> {
        let now = present.map(listing).transpose()?.unwrap_or_default();
        let mut moments = self.moments(id)?;
        if moments.last() != Some(&now) {
            moments.push(now.clone());
        }
        let last = moments.len() as u64 - 1;
        let at = match self.dice.below(3) {
            _ if self.names_stay => last,
            0 => 0,
            1 => last,
            _ => self.dice.below(last + 1),
        };
        let names = moments.swap_remove(at as usize);
        self.damage.names_back += now.iter().filter(|name| !names.contains(name)).count() as u64;
        for name in names {
            let path = to.join(&name.name);
            let present = self.present.get(&name.id).cloned();
            if name.is_folder {
                fs::create_dir(&path)?;
                self.folder(&name.id, present.as_deref(), &path)?;
            } else {
                fs::write(&path, self.file(&name.id, present.as_deref())?)?;
            }
        }
        Ok(())
    }

    /// The names at the last sync, and after each change since.
    fn moments(&self, id: &str) -> io::Result<Vec<Vec<Name>>> {
        let text = match fs::read_to_string(self.shadow.join("names").join(id)) {
            // Never synced nor changed under our eyes: it may come back empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![Vec::new()]),
            other => other?,
        };
        let (mut moments, mut names) = (Vec::new(), Vec::new());
        for line in text.lines() {
            match line {
                "end" => moments.push(std::mem::take(&mut names)),
                line => names.extend(Name::parse(line)),
            }
        }
        Ok(moments)
    }

    /// The bytes of a file: each page its synced or its present self.
    fn file(&mut self, id: &str, present: Option<&Path>) -> io::Result<Vec<u8>> {
        let synced = match fs::read(self.shadow.join("contents").join(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let Some(present) = present else { return Ok(synced) };
        let present = fs::read(present)?;
        let length = match self.dice.below(3) {
            _ if present.len() == synced.len() || !self.tears => synced.len(),
            0 => synced.len(),
            1 => present.len(),
            _ => self.dice.below(present.len().max(synced.len()) as u64 + 1) as usize,
        };
        let unit = *self.dice.one_of(&UNIT_BYTES);
        let kept = if self.tears { *self.dice.one_of(&KEPT_PERCENT) } else { 0 };
        let part = |bytes: &[u8], at: usize, end: usize| {
            let mut part = bytes.get(at..bytes.len().min(end)).unwrap_or_default().to_vec();
            part.resize(end - at, 0);
            part
        };
        let mut left = Vec::with_capacity(length);
        for at in (0..length).step_by(unit) {
            let end = length.min(at + unit);
            let (old, new) = (part(&synced, at, end), part(&present, at, end));
            let goes_back = old != new && !self.dice.percent(kept);
            self.damage.units_back += u64::from(goes_back);
            left.extend(if goes_back { old } else { new });
        }
        Ok(left)
    }
}

fn listing(folder: &Path) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (meta, name) = (entry.metadata()?, entry.file_name());
        let name = name.to_string_lossy().into_owned();
        names.push(Name { is_folder: meta.is_dir(), id: id_of(&meta), name });
    }
    names.sort_by_key(Name::line);
    Ok(names)
}

/// Inode and birth: as the library writes them.
fn id_of(meta: &Metadata) -> String {
    let born = meta.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{}-{}", meta.ino(), born.unwrap_or_default().as_nanos())
}

/// The library, beside this program as `process::binary` is.
fn library() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let beside = own.ancestors().skip(1).take(2).map(|dir| dir.join("libslot_shim.so"));
    beside.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        io::Error::other("no libslot_shim.so beside this program: run `cargo build -p slot-shim`")
    })
}

/// A folder in memory where there is one: a shadow doubles every byte, and waits for no disk.
pub fn quick_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}
