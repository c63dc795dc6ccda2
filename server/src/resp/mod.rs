//! The Redis protocol as the server speaks it: requests in (`scan`), replies out (`reply`).
//!
//! Both halves are pure: bytes in, ranges or bytes out, no sockets and no clocks. A connection
//! calls `scan` on its read buffer until `Incomplete`, runs each request, lets a `Reply` append
//! to its write buffer, and closes after it has answered a `ProtocolError`.
//!
//! It is not a decoder of replies or of nested frames: clients send flat arrays of bulk strings
//! or inline lines, nothing else. Invariant: memory follows bytes received, never a length that
//! was only announced.

mod error;
#[cfg(test)]
mod feed;
mod inline;
#[cfg(test)]
mod oracle;
pub mod reply;
pub mod scan;

pub use error::ProtocolError;
pub use inline::split_quoted;
pub use reply::{DeferredLen, Proto, Reply};
pub use scan::{ArgRange, Partial, Scan, ScanLimits, scan};
