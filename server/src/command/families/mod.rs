//! The command families: each declares its commands in one slice, beside their handlers.

use crate::command::Command;

pub mod connection;
pub mod list;
pub mod session_verbs;
pub mod string;
pub mod timeout;

/// All families, in the order COMMAND lists them.
pub const FAMILIES: &[&[Command]] =
    &[string::COMMANDS, list::COMMANDS, connection::COMMANDS, session_verbs::COMMANDS];
