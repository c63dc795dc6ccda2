//! Golden bytes of a chunk, and broken ones.

use proptest::prelude::*;

use super::*;
use crate::store::blob::Blob;

/// A chunk of three keys.
fn sample() -> Vec<u8> {
    let order = KeyOrder::local().seed();
    let mut bytes = Vec::new();
    let mut writer = ChunkWriter::begin(&mut bytes);
    writer.put_flat(&mut bytes, (b"{k}1", None), (b"text", false));
    writer.put_flat(&mut bytes, (b"{k}2", Some(1_700_000_000_123)), (b"raw", true));
    writer.put_object(&mut bytes, (b"{k}3", None), &Object::Blob(Blob::from_slice(b"big")));
    let (slot, epoch, index) = (slots::slot_of(b"{k}"), Epoch(7), OpIndex(300));
    let (from, to) = (ScanPos::START, ScanPos::LAST);
    let head = Head { slot, epoch, index, order, from, to, is_last: true };
    writer.end(&mut bytes, &head);
    bytes
}

fn read(bytes: &[u8]) -> Result<(), Broken> {
    Chunk::read(bytes)?.check()
}

#[test]
fn bytes_are_as_they_were() {
    let hex: Vec<String> = sample().iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = format!("chunk: {}\n", hex.join(" "));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stream/golden/chunk.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &lines).expect("the file can be written");
    }
    let golden = std::fs::read_to_string(path).expect("the file is there");
    assert_eq!(lines, golden, "a format changed: that needs a new version");
}

#[test]
fn a_chunk_says_what_it_is() {
    let bytes = sample();
    let chunk = Chunk::read(&bytes).expect("a chunk");
    assert_eq!((chunk.len(), chunk.head().index, chunk.head().is_last), (3, OpIndex(300), true));
    let order = KeyOrder::local();
    let entries: Vec<_> = chunk.entries(&order).collect::<Result<_, _>>().expect("whole");
    assert_eq!(entries[1].expiry, Expiry::At(1_700_000_000_123));
    assert!(matches!(entries[1].value, Decoded::Flat { text: b"raw", is_raw: true }));
    assert!(matches!(&entries[2].value, Decoded::Object(object) if object.len() == 3));
}

#[test]
fn whatever_is_missing_or_too_much_is_broken() {
    let bytes = sample();
    assert_eq!(read(&bytes), Ok(()));
    for cut in 0..bytes.len() {
        assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(read(&longer).map_err(|broken| broken.at), Err(bytes.len()));
    let mut narrow = bytes.clone();
    narrow[36..44].fill(0);
    let error = read(&narrow).expect_err("no key lies at position 0");
    assert_eq!(error.what, "a key outside the range");
}

proptest! {
    #[test]
    fn mutated_chunks_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = sample();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read(&bytes);
    }

    #[test]
    fn random_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
        bytes.splice(0..0, sample()[..HEAD_BYTES].iter().copied());
        let _ = read(&bytes);
    }
}
