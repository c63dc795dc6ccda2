//! The snapshot: the ledger at one place of the log, as a file and as it is sent to other nodes.
//!
//! ```text
//!   0  8 bytes "SLOTSNAP"   8  u16 format, 1   10  u16 0   12  u32 bytes of the place, P
//!  16  u64 bytes of the ledger, L             24  u32 CRC32C of bytes 0-23 and from 28 to the end
//!  28  P bytes: openraft's SnapshotMeta (last log id, members, id), packed
//!  28+P  L bytes: the ledger, packed
//! ```
//! Invariant: a snapshot that parses is whole; its length is that of the file.

use std::sync::Arc;

use openraft::SnapshotMeta;

use super::error::{Damage, StoreError};
use super::{Fields, LogId, SNAPSHOT_FILE};
use crate::control::ledger::Ledger;
use crate::control::raft::codec::{BadBytes, pack, unpack};
use crate::control::raft::types::Member;

/// Most bytes of a packed ledger: a table of 1,000 nodes in 16,384 runs with its history takes
/// about 2 MiB.
pub const MAX_SNAPSHOT_BYTES: usize = 64 * 1024 * 1024;
/// Most bytes of the place: openraft names every node twice at most.
const MAX_PLACE_BYTES: usize = 1024 * 1024;
/// Most bytes of the file, and of what is sent.
pub const MAX_SNAPSHOT_FILE_BYTES: usize = HEADER_BYTES + MAX_PLACE_BYTES + MAX_SNAPSHOT_BYTES;
/// Format of the file.
const SNAPSHOT_FORMAT: u16 = 1;

const MAGIC: &[u8; 8] = b"SLOTSNAP";
const HEADER_BYTES: usize = 28;
const SUM_AT: usize = 24;

/// Where in the log a snapshot stands, and who the members are there.
pub(crate) type Place = SnapshotMeta<Member, openraft::EmptyNode>;

/// A snapshot.
#[derive(Clone, PartialEq, Debug)]
pub struct Snap {
    /// Where in the log.
    pub place: Place,
    /// The state there.
    pub ledger: Ledger,
    /// Both as the file holds them and as they are sent.
    pub bytes: Arc<Vec<u8>>,
}

impl Snap {
    /// A snapshot. Its id is made of its place and its content, so that two of one id have the
    /// same bytes.
    pub fn new(
        last: Option<LogId>,
        members: openraft::StoredMembership<Member, openraft::EmptyNode>,
        ledger: Ledger,
    ) -> Result<Snap, BadBytes> {
        let image = pack::<MAX_SNAPSHOT_BYTES>(&ledger)?;
        let (term, index) = last.map_or((0, 0), |id| (id.leader_id.term, id.index));
        let snapshot_id = format!("{term}-{index}-{:08x}", crc32c::crc32c(&image));
        let place = Place { last_log_id: last, last_membership: members, snapshot_id };
        let bytes = Arc::new(file_bytes(&place, &image)?);
        Ok(Snap { place, ledger, bytes })
    }

    /// The snapshot of a file, or of bytes that another node sent.
    pub fn parse(bytes: Vec<u8>) -> Result<Snap, StoreError> {
        let damage = |offset: usize, expected: String, got: String| {
            StoreError::Damaged(Damage::at(SNAPSHOT_FILE, offset as u64, expected, got))
        };
        let short = || damage(0, "a header of 28 bytes".into(), format!("{} bytes", bytes.len()));
        let mut fields = Fields(&bytes);
        if fields.take::<8>().ok_or_else(short)? != *MAGIC {
            return Err(damage(0, "SLOTSNAP".into(), "other bytes".into()));
        }
        let format = fields.u16().ok_or_else(short)?;
        if format > SNAPSHOT_FORMAT {
            let file = SNAPSHOT_FILE.to_owned();
            return Err(StoreError::TooNew { file, expected: SNAPSHOT_FORMAT, got: format });
        }
        let _zero = fields.u16().ok_or_else(short)?;
        let place_bytes = fields.u32().ok_or_else(short)? as usize;
        let image_bytes = fields.u64().ok_or_else(short)?;
        let sum = fields.u32().ok_or_else(short)?;
        let rest = fields.rest();
        if place_bytes as u64 + image_bytes.min(u64::MAX / 2) != rest.len() as u64 {
            let expected = format!("{place_bytes} and {image_bytes} bytes behind the header");
            return Err(damage(12, expected, format!("{} bytes", rest.len())));
        }
        let computed = checksum(&bytes);
        if sum != computed {
            let expected = format!("the checksum {computed:08x}");
            return Err(damage(SUM_AT, expected, format!("{sum:08x}")));
        }
        let (place, image) = rest.split_at(place_bytes);
        let place: Place = unpack::<_, MAX_PLACE_BYTES>(place)
            .map_err(|error| damage(HEADER_BYTES, "a place".into(), error.to_string()))?;
        let ledger: Ledger = unpack::<_, MAX_SNAPSHOT_BYTES>(image).map_err(|error| {
            damage(HEADER_BYTES + place_bytes, "a ledger".into(), error.to_string())
        })?;
        Ok(Snap { place, ledger, bytes: Arc::new(bytes) })
    }
}

fn file_bytes(place: &Place, image: &[u8]) -> Result<Vec<u8>, BadBytes> {
    let place = pack::<MAX_PLACE_BYTES>(place)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + place.len() + image.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&SNAPSHOT_FORMAT.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&(place.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(image.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&place);
    bytes.extend_from_slice(image);
    let sum = checksum(&bytes);
    bytes[SUM_AT..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    Ok(bytes)
}

/// Of all but the checksum itself. The bytes have a whole header.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..SUM_AT]), &bytes[HEADER_BYTES..])
}
