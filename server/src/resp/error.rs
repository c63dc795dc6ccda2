//! Why a stream of requests cannot be read on, and how the client is told.
//!
//! Only errors of the protocol itself: after one of them the connection is answered and closed.
//! What a command refuses is not here. Invariant: the texts are Redis's, byte by byte.

use std::fmt;

/// Why a stream of requests cannot be read on. `text` is what the client is told.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum ProtocolError {
    /// The count behind `*` is no integer or too large.
    InvalidMultibulkLength,
    /// The length behind `$` is no integer, negative or too large.
    InvalidBulkLength,
    /// A bulk string was due and this byte came instead of `$`.
    ExpectedDollar {
        /// The byte that came.
        got: u8,
    },
    /// The line of a `*` does not end.
    TooBigMultibulkCount,
    /// The line of a `$` does not end.
    TooBigBulkCount,
    /// The inline request does not end.
    TooBigInline,
    /// More than `UNAUTHENTICATED_ARGS` arguments before the login.
    UnauthenticatedMultibulkLength,
    /// A bulk of more than `UNAUTHENTICATED_BULK_BYTES` before the login.
    UnauthenticatedBulkLength,
    /// A quote of an inline request does not close, or no blank follows it.
    UnbalancedQuotes,
    /// The request would end behind `MAX_BUFFER_BYTES`. Redis has no such error: it closes.
    TooBigRequest,
}

impl ProtocolError {
    /// The error's text for the client, its code first, as `Reply::error` takes it.
    pub fn text(self) -> Vec<u8> {
        let mut text = b"ERR Protocol error: ".to_vec();
        text.extend_from_slice(self.reason().as_bytes());
        if let Self::ExpectedDollar { got } = self {
            text.extend_from_slice(&[got, b'\'']);
        }
        text
    }

    fn reason(self) -> &'static str {
        match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::ExpectedDollar { .. } => "expected '$', got '",
            Self::TooBigMultibulkCount => "too big mbulk count string",
            Self::TooBigBulkCount => "too big bulk count string",
            Self::TooBigInline => "too big inline request",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::TooBigRequest => "too big request",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())?;
        if let Self::ExpectedDollar { got } = self {
            write!(f, "{}'", got.escape_ascii())?;
        }
        Ok(())
    }
}

impl std::error::Error for ProtocolError {}
