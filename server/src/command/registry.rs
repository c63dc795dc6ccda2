//! All commands by id and by name. The look-up costs some 10 ns: a name's length and two masked
//! words of it are hashed into a two-way table, then the name is compared.

use std::sync::LazyLock;

use crate::command::Command;
use crate::command::families::FAMILIES;

/// Buckets of the two-way table; a power of two, about four times the commands.
const BUCKETS: usize = 1024;
const NONE: u16 = u16::MAX;

/// A command's place in the registry. Subcommands have their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u16);

impl CommandId {
    /// As an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A registered command.
pub struct Entry {
    /// Its declaration.
    pub command: &'static Command,
    /// `config|get` for subcommands, else the name.
    pub full_name: String,
    /// Ids of its subcommands.
    pub subcommands: Vec<CommandId>,
    /// Is it a subcommand itself?
    pub parent: Option<CommandId>,
    /// Is each call timed on its own? Not if it takes constant time.
    timed: bool,
}

/// All commands.
pub struct Registry {
    entries: Vec<Entry>,
    buckets: Box<[[u16; 2]; BUCKETS]>,
    multiplier: u64,
}

/// The registry of this build.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::build);
    &REGISTRY
}

impl Registry {
    fn build() -> Registry {
        let mut entries: Vec<Entry> = Vec::new();
        for command in FAMILIES.iter().flat_map(|family| family.iter()) {
            add(&mut entries, command);
        }
        let mut multiplier = 0x9E37_79B9_7F4A_7C15_u64;
        loop {
            if let Some(buckets) = place(&entries, multiplier) {
                return Registry { entries, buckets, multiplier };
            }
            multiplier = multiplier.wrapping_mul(0xFF51_AFD7_ED55_8CCD).wrapping_add(2) | 1;
        }
    }

    /// Number of ids.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry of an id.
    #[inline]
    pub fn entry(&self, id: CommandId) -> &Entry {
        &self.entries[id.index()]
    }

    /// Is each call of this command timed on its own?
    #[inline]
    pub fn is_timed(&self, id: CommandId) -> bool {
        self.entries[id.index()].timed
    }

    /// All top-level commands in id order.
    pub fn commands(&self) -> impl Iterator<Item = (CommandId, &Entry)> {
        self.all().filter(|(_, e)| e.parent.is_none())
    }

    /// All entries, subcommands too.
    pub fn all(&self) -> impl Iterator<Item = (CommandId, &Entry)> {
        self.entries.iter().enumerate().map(|(i, e)| (CommandId(i as u16), e))
    }

    /// A top-level command by name, case ignored.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        let bucket = &self.buckets[bucket_of(name, self.multiplier)];
        for &id in bucket {
            if id != NONE {
                let known = self.entries[id as usize].command.name.as_bytes();
                if known.eq_ignore_ascii_case(name) {
                    return Some(CommandId(id));
                }
            }
        }
        None
    }

    /// A container's subcommand by its word, case ignored.
    pub fn find_sub(&self, id: CommandId, word: &[u8]) -> Option<CommandId> {
        self.entry(id)
            .subcommands
            .iter()
            .copied()
            .find(|s| self.entry(*s).command.name.as_bytes().eq_ignore_ascii_case(word))
    }

    /// `name` or `name|sub`.
    pub fn find_full(&self, name: &[u8]) -> Option<CommandId> {
        match name.iter().position(|b| *b == b'|') {
            None => self.find(name),
            Some(at) => self.find_sub(self.find(&name[..at])?, &name[at + 1..]),
        }
    }
}

fn add(entries: &mut Vec<Entry>, command: &'static Command) {
    let id = CommandId(entries.len() as u16);
    entries.push(Entry {
        command,
        full_name: command.name.to_owned(),
        subcommands: Vec::new(),
        parent: None,
        timed: is_timed(command),
    });
    for sub in command.subcommands {
        let sub_id = CommandId(entries.len() as u16);
        entries.push(Entry {
            command: sub,
            full_name: format!("{}|{}", command.name, sub.name),
            subcommands: Vec::new(),
            parent: Some(id),
            timed: is_timed(sub),
        });
        entries[id.index()].subcommands.push(sub_id);
    }
}

/// Constant-time commands on one slot get a share of their batch's time instead.
fn is_timed(command: &Command) -> bool {
    !command.complexity.starts_with("O(1)")
}

fn place(entries: &[Entry], multiplier: u64) -> Option<Box<[[u16; 2]; BUCKETS]>> {
    let mut buckets = Box::new([[NONE; 2]; BUCKETS]);
    for (i, entry) in entries.iter().enumerate().filter(|(_, e)| e.parent.is_none()) {
        let bucket = &mut buckets[bucket_of(entry.command.name.as_bytes(), multiplier)];
        let free = bucket.iter_mut().find(|id| **id == NONE)?;
        *free = i as u16;
    }
    Some(buckets)
}

/// Case folding by clearing bit 5 maps some non-letters together; the compare sorts that out.
#[inline]
fn bucket_of(name: &[u8], multiplier: u64) -> usize {
    const FOLD: u64 = 0xDFDF_DFDF_DFDF_DFDF;
    let n = name.len();
    let (a, b) = if let (Some(first), Some(last)) =
        (name.first_chunk::<8>(), name.last_chunk::<8>())
    {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
    } else {
        let byte = |i: usize| name.get(i).copied().unwrap_or(0) as u64;
        (byte(0) | byte(1) << 8 | byte(2) << 16, 0)
    };
    let mixed = (a & FOLD) ^ (b & FOLD).rotate_left(23) ^ (n as u64) << 56;
    (mixed.wrapping_mul(multiplier) >> (64 - BUCKETS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for (id, entry) in registry().commands() {
            let name = entry.command.name;
            assert_eq!(registry().find(name.as_bytes()), Some(id));
            assert_eq!(registry().find(name.to_ascii_uppercase().as_bytes()), Some(id));
            for sub in &entry.subcommands {
                let full = &registry().entry(*sub).full_name;
                assert_eq!(registry().find_full(full.as_bytes()), Some(*sub));
            }
        }
    }

    #[test]
    fn unknown_names_are_not_found() {
        for name in ["", "g", "gett", "GETGETGETGETGET", "\0\0\0", "get\r"] {
            assert_eq!(registry().find(name.as_bytes()), None, "{name:?}");
        }
    }
}
