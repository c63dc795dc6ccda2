//! The command families: each declares its commands in one slice, beside their handlers.

use crate::command::Command;

pub mod session_verbs;

/// All families, in the order COMMAND lists them.
pub const FAMILIES: &[&[Command]] = &[session_verbs::COMMANDS];
