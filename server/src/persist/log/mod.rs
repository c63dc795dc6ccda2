//! The write-ahead log: what is appended to it is not forgotten (manual, chapter disk). No file is
//! touched here: `WalDisk` is the seam, `io/wal` the edge.
//!
//! ```text
//!   Recovery::find --> replay --> open --> Keeper (files, one thread) --+
//!                                                                       +-- pool of chunks
//!   Wal (all who append, who syncs) --> lanes --> chunks of mapped files +
//! ```
//! Invariant: what `synced` was told of survives the machine, what `is_written` says yes to
//! survives the process; a replay gives each lane's records in order, without a gap.

mod disk;
mod error;
mod flags;
mod format;
mod keeper;
mod lane;
mod open;
mod parts;
mod pool;
mod record;
mod recover;
mod replay;
mod round;
pub mod sim;
mod wal;

#[cfg(test)]
mod tests;

pub use disk::{Fill, LogFile, Piece, WalDisk};
pub use error::{Damage, DiskError, Doing, LogError};
pub use flags::{LogFlags, Policy};
pub use format::{CHUNK_HEADER_BYTES, FILE_HEADER_BYTES, FORMAT, Ids};
pub(in crate::persist) use format::{array_at, u16_at, u32_at, u64_at};
pub use keeper::{Keeper, Kept, Sizes};
pub use open::Options;
pub use record::{Entry, Kind, MAX_PAYLOAD_BYTES, RECORD_HEADER_BYTES};
pub use recover::{Recovery, Trust};
pub use replay::{Found, LaneEnd, Torn};
pub use round::Round;
pub use wal::{Bells, Figures, MAX_LANES, MAX_WAITING_BYTES, Position, Wal};
