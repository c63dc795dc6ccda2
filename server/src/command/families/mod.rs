//! The command families: each declares its commands in one slice, beside their handlers.

use crate::command::Command;

pub mod connection;
pub mod draw;
pub mod hash;
pub mod number;
pub mod scan;
pub mod session_verbs;
pub mod set;
pub mod string;
pub mod zset;

/// All families, in the order COMMAND lists them.
pub const FAMILIES: &[&[Command]] = &[
    string::COMMANDS,
    connection::COMMANDS,
    session_verbs::COMMANDS,
    hash::COMMANDS,
    set::COMMANDS,
    zset::COMMANDS,
];
