//! The folder of a backup on disk: new parts, the manifest, reading them again.
//!
//! Not the bytes (`backup/`). Invariant: the manifest gets its name after everything it names is
//! on the disk, and a folder with anything in it is never begun.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::backup::Damage;
use crate::backup::manifest::{MANIFEST_BYTES_MAX, MANIFEST_FILE, PartEntry, Section};
use crate::backup::part::{self, Frames, HEADER_BYTES, ReadError};

/// Bytes of a part after which the next section begins another: small enough to be copied and
/// kept one by one.
const PART_BYTES: u64 = 64 << 20;
/// The manifest while it is written.
const UNFINISHED_FILE: &str = "manifest.json.tmp";
/// Read and written at once, bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// A folder that a backup is written to.
pub(crate) struct NewFolder {
    path: PathBuf,
    next: AtomicU32,
}

impl NewFolder {
    /// Makes it; a folder that is there must be empty.
    pub(crate) fn make(path: &Path) -> io::Result<NewFolder> {
        fs::create_dir_all(path)?;
        if let Some(entry) = fs::read_dir(path)?.next() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("it is not empty: it has {name}; give a new folder, or remove this one"),
            ));
        }
        Ok(NewFolder { path: path.to_owned(), next: AtomicU32::new(0) })
    }

    /// A place to write sections to, for one thread.
    pub(crate) fn writer(&self) -> PartWriter<'_> {
        PartWriter { folder: self, open: None, done: Vec::new() }
    }

    /// Writes the manifest: with that it is a backup.
    pub(crate) fn finish(&self, manifest: &str) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        let unfinished = self.path.join(UNFINISHED_FILE);
        let mut file = File::create_new(&unfinished)?;
        file.write_all(manifest.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path.join(MANIFEST_FILE))?;
        File::open(&self.path)?.sync_all()
    }

    /// Removes what was written, as far as that goes: it came to nothing.
    pub(crate) fn give_up(&self) {
        for number in 0..self.next.load(Ordering::SeqCst) {
            // What stays is named when the folder is given again.
            let _ = fs::remove_file(self.path.join(part::name(number)));
        }
        let _ = fs::remove_file(self.path.join(UNFINISHED_FILE));
    }
}

/// Writes part after part.
pub(crate) struct PartWriter<'f> {
    folder: &'f NewFolder,
    open: Option<OpenPart>,
    done: Vec<PartEntry>,
}

struct OpenPart {
    name: String,
    file: BufWriter<File>,
    /// Bytes of whole sections and the header.
    bytes: u64,
    /// What the section under way has so far.
    section: Section,
}

impl PartWriter<'_> {
    /// Begins the section of a slot.
    pub(crate) fn begin(&mut self, slot: u16) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|part| part.bytes >= PART_BYTES) {
            self.end_part()?;
        }
        let part = match &mut self.open {
            Some(part) => part,
            None => {
                let number = self.folder.next.fetch_add(1, Ordering::SeqCst);
                let name = part::name(number);
                let file = File::create_new(self.folder.path.join(&name))?;
                let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
                file.write_all(&part::header(number))?;
                let (bytes, section) = (HEADER_BYTES as u64, Section::default());
                self.open.insert(OpenPart { name, file, bytes, section })
            }
        };
        let (file, offset) = (part.name.clone(), part.bytes);
        part.section = Section { slot, file, offset, ..Section::default() };
        Ok(())
    }

    /// Writes a frame of the section under way.
    pub(crate) fn frame(&mut self, frame: &[u8]) -> io::Result<()> {
        let part = self.part()?;
        let head = part::frame_head(part.section.slot, frame);
        part.file.write_all(&head)?;
        part.file.write_all(frame)?;
        let section = &mut part.section;
        section.bytes += (head.len() + frame.len()) as u64;
        section.frames += 1;
        section.crc32c = crc32c::crc32c_append(crc32c::crc32c_append(section.crc32c, &head), frame);
        Ok(())
    }

    /// The section is whole.
    pub(crate) fn end(&mut self) -> io::Result<Section> {
        let part = self.part()?;
        part.bytes += part.section.bytes;
        Ok(std::mem::take(&mut part.section))
    }

    /// The section came to nothing: what is there of it goes.
    pub(crate) fn undo(&mut self) -> io::Result<()> {
        let Some(part) = &mut self.open else { return Ok(()) };
        part.section = Section::default();
        part.file.flush()?;
        part.file.get_ref().set_len(part.bytes)?;
        part.file.seek(SeekFrom::Start(part.bytes)).map(drop)
    }

    /// All parts, on the disk.
    pub(crate) fn finish(mut self) -> io::Result<Vec<PartEntry>> {
        self.end_part()?;
        Ok(self.done)
    }

    fn part(&mut self) -> io::Result<&mut OpenPart> {
        self.open.as_mut().ok_or_else(|| io::Error::other("no section was begun"))
    }

    fn end_part(&mut self) -> io::Result<()> {
        let Some(mut part) = self.open.take() else { return Ok(()) };
        if part.bytes == HEADER_BYTES as u64 {
            // Its only section came to nothing.
            return fs::remove_file(self.folder.path.join(&part.name));
        }
        part.file.flush()?;
        part.file.get_ref().sync_all()?;
        self.done.push(PartEntry { file: part.name, bytes: part.bytes });
        Ok(())
    }
}

/// The bytes of the manifest in a folder.
pub(crate) fn read_manifest(folder: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(folder.join(MANIFEST_FILE))?.take(MANIFEST_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// Is it of the length the manifest says, with the header of a part?
pub(crate) fn check_part(folder: &Path, part: &PartEntry) -> Result<(), ReadError> {
    let path = folder.join(&part.file);
    let mut file = File::open(path).map_err(ReadError::Disk)?;
    let bytes = file.metadata().map_err(ReadError::Disk)?.len();
    if bytes != part.bytes {
        let (file, offset) = (part.file.clone(), bytes.min(part.bytes));
        let (expected, got) = (format!("a file of {} bytes", part.bytes), format!("{bytes} bytes"));
        return Err(ReadError::Damage(Damage { file, offset, expected, got }));
    }
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header).map_err(ReadError::Disk)?;
    part::check_header(&part.file, &header).map_err(ReadError::Damage)
}

/// The frames of a section.
pub(crate) fn frames<'s>(
    folder: &Path,
    section: &'s Section,
) -> Result<Frames<'s, BufReader<File>>, ReadError> {
    let open = || {
        let mut file = OpenOptions::new().read(true).open(folder.join(&section.file))?;
        file.seek(SeekFrom::Start(section.offset))?;
        Ok(BufReader::with_capacity(BUFFER_BYTES, file))
    };
    open().map(|file| Frames::new(section, file)).map_err(ReadError::Disk)
}
