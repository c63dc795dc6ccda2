//! Files that are not what was written: refused, with file and offset, and with what to do.
//!
//! Not a loss of what was never synced (`crashes`). Invariant: nothing is loaded from them, and no
//! byte of them changes.

use proptest::prelude::*;

use super::*;
use crate::stream::tests::bare_rooms;

const PART: &str = "part.0000000001.00000";

/// A checkpoint of some parts.
fn sound() -> SimDisk {
    let (rooms, disk) = (bare_rooms(), SimDisk::new(1));
    for number in 0..6 {
        own(&rooms, slot(number), 7);
        (0..6).for_each(|key| set(&rooms, slot(number), &format!("key{key}"), "some text"));
    }
    take_by(SMALL, &rooms, &disk, about(0), &Edge::still()).expect("taken");
    assert!(disk.names().len() > 3);
    disk
}

fn bytes(disk: &SimDisk, name: &str) -> Vec<u8> {
    disk.bytes(name).expect("it is there")
}

/// The refusal of a disk.
fn refusal(disk: &SimDisk) -> String {
    refusal_in(disk, &bare_rooms())
}

fn refusal_in(disk: &SimDisk, rooms: &Rooms) -> String {
    match load(disk, rooms) {
        Ok(loaded) => panic!("it was loaded: {loaded:?}"),
        Err(error) => error.to_string(),
    }
}

/// The bytes with one place changed and the checksum at the end of `summed` made to fit.
fn changed(mut bytes: Vec<u8>, at: usize, with: &[u8], sum_at: usize) -> Vec<u8> {
    bytes[at..at + with.len()].copy_from_slice(with);
    let sum = crc32c::crc32c(&bytes[..sum_at]);
    bytes[sum_at..sum_at + 4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn each_kind_of_bad_file_is_refused_with_its_place() {
    let disk = sound();
    let (manifest, part) = (bytes(&disk, "manifest"), bytes(&disk, PART));
    let end = manifest.len() - 4;
    let other = bytes(&disk, "part.0000000001.00001");
    let cut = |bytes: &[u8], len: usize| bytes[..len].to_vec();
    let cases: [(&str, Vec<u8>, &[&str]); 16] = [
        ("manifest", cut(&manifest, 0), &["manifest is damaged at offset 0", "92 to"]),
        ("manifest", cut(&manifest, 91), &["offset 91", "got 91", "A damaged checkpoint"]),
        ("manifest", cut(&manifest, end), &["the end of a manifest", "do not match"]),
        ("manifest", vec![0; 300_000], &["got 300000"]),
        ("manifest", vec![0; 200], &["offset 0: expected a manifest, got other bytes"]),
        ("manifest", changed(manifest.clone(), 8, &[2, 0], end), &["format 2 (offset 8)", "newer"]),
        ("manifest", changed(manifest.clone(), 32, &[9], end), &["offset 32", "data directory"]),
        ("manifest", changed(manifest.clone(), 48, &[9], end), &["offset 48", "node 0901"]),
        ("manifest", changed(manifest.clone(), 68, &[200], end), &["200 parts"]),
        ("manifest", changed(manifest.clone(), 72, &[99], end), &["99 keys in 6 slots", "36 in 6"]),
        (
            "manifest",
            changed(manifest.clone(), 16, &[3], end),
            &["part.0000000003.00000", "no such"],
        ),
        (PART, cut(&part, part.len() - 1), &[PART, "as the manifest says"]),
        (PART, [&part[..], &[0]].concat(), &[PART, "as the manifest says"]),
        (PART, changed(part.clone(), 8, &[7, 0], 68), &["format 7 (offset 8)"]),
        (PART, changed(part.clone(), 48, &[9], 68), &[PART, "offset 48", "node 0901"]),
        (
            PART,
            other.iter().copied().chain(part[other.len().min(part.len())..].to_vec()).collect(),
            &[PART],
        ),
    ];
    for (file, bytes, reasons) in cases {
        let disk = sound();
        disk.put(file, &bytes);
        let refusal = refusal(&disk);
        for reason in reasons {
            assert!(refusal.contains(reason), "{refusal:?} does not say {reason:?}");
        }
        assert_eq!(disk.bytes(file).as_deref(), Some(&bytes[..]), "a byte was changed");
    }
}

#[test]
fn a_missing_part_is_refused() {
    for name in sound().names() {
        let disk = sound();
        disk.take_away(&name);
        if name == "manifest" {
            assert!(matches!(load(&disk, &bare_rooms()), Ok(None)), "no checkpoint is valid");
        } else {
            let refusal = refusal(&disk);
            assert!(refusal.contains(&name) && refusal.contains("no such file"), "{refusal}");
        }
    }
}

#[test]
fn a_part_of_another_round_is_refused() {
    let disk = sound();
    let rooms = bare_rooms();
    own(&rooms, slot(0), 7);
    set(&rooms, slot(0), "key", "text");
    let others = SimDisk::new(2);
    take(&rooms, &others, about(3), &Edge::still()).expect("taken");
    disk.put("manifest", &bytes(&others, "manifest"));
    disk.put("part.0000000004.00000", &bytes(&disk, PART));
    assert!(refusal(&disk).contains("as the manifest says"), "another length");
    disk.put("part.0000000004.00000", &bytes(&others, "part.0000000004.00000"));
    load(&disk, &bare_rooms()).expect("that one fits");
}

/// Every bit of a checkpoint counts, but for those of chunks that were void: there are none here.
#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let rooms = bare_rooms();
    for name in sound().names() {
        let disk = sound();
        let length = bytes(&disk, &name).len();
        for at in 0..length {
            disk.flip(&name, at, 1 << (at % 8));
            let refusal = refusal_in(&disk, &rooms);
            disk.flip(&name, at, 1 << (at % 8));
            assert!(refusal.contains("checkpoint/"), "{name} at {at}: {refusal}");
        }
    }
}

/// Lengths that fit their checksums allocate nothing the files do not have.
#[test]
fn lengths_beyond_the_file_are_refused() {
    let disk = sound();
    let manifest = bytes(&disk, "manifest");
    let end = manifest.len() - 4;
    let whole = u64::MAX.to_le_bytes();
    disk.put("manifest", &changed(manifest, 88, &whole, end));
    assert!(refusal(&disk).contains(&format!("{} bytes, as the manifest says", u64::MAX)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn mutated_files_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        nth in any::<prop::sample::Index>(),
    ) {
        let disk = sound();
        let names = disk.names();
        let name = &names[nth.index(names.len())];
        let before = bytes(&disk, name);
        let mut bytes = before.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        disk.put(name, &bytes);
        prop_assert_eq!(load(&disk, &bare_rooms()).is_ok(), bytes == before);
    }
}
