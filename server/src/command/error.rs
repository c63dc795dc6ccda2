//! Errors a handler answers with: Redis's texts, to the letter.

use slots::SlotId;

use crate::resp::Reply;
use crate::slot::WrongType;

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The key is of another type.
    WrongType,
    /// The words do not fit the command's grammar.
    Syntax,
    /// A word is no canonical 64-bit integer.
    NotInteger,
    /// A word is no float.
    NotFloat,
    /// The key must exist and does not.
    NoSuchKey,
    /// The node is over maxmemory.
    OutOfMemory,
    /// A whole error line without the `-`.
    Static(&'static str),
    /// The same, made for the occasion.
    Text(String),
    /// Not an answer: the room is held by somebody; the session tries again later. Whatever the
    /// handler wrote is dropped. Only before anything was applied.
    Busy(SlotId),
}

impl CommandError {
    /// `ERR ` + text.
    pub fn err(text: impl std::fmt::Display) -> CommandError {
        CommandError::Text(format!("ERR {text}"))
    }

    /// `ERR wrong number of arguments for '...' command`.
    pub fn arity(name: &str) -> CommandError {
        CommandError::err(format_args!("wrong number of arguments for '{name}' command"))
    }

    /// Redis's words for a subcommand with more arguments than it has; `word` as it was sent.
    pub fn subcommand(container: &str, word: &[u8]) -> CommandError {
        /// As much of the word is shown, as in Redis.
        const SHOWN_BYTES: usize = 128;
        let word = String::from_utf8_lossy(&word[..word.len().min(SHOWN_BYTES)]);
        CommandError::err(format_args!(
            "unknown subcommand or wrong number of arguments for '{word}'. Try {container} HELP."
        ))
    }

    /// The error line without the `-`.
    pub fn text(&self) -> &str {
        match self {
            CommandError::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            }
            CommandError::Syntax => "ERR syntax error",
            CommandError::NotInteger => "ERR value is not an integer or out of range",
            CommandError::NotFloat => "ERR value is not a valid float",
            CommandError::NoSuchKey => "ERR no such key",
            CommandError::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            CommandError::Static(text) => text,
            CommandError::Text(text) => text,
            CommandError::Busy(_) => {
                "TRYAGAIN the slot is busy or being handed over; nothing was executed"
            }
        }
    }

    /// Appends the error reply.
    #[cold]
    pub fn write(&self, reply: &mut Reply<'_>) {
        reply.error(self.text());
    }
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> CommandError {
        CommandError::WrongType
    }
}
