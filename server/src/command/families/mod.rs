//! The command families: each declares its commands in one slice, beside their handlers.

use crate::command::Command;

pub mod bitmap;
pub mod connection;
pub mod expire;
pub mod expiry_time;
pub mod help;
pub mod keys;
pub mod keyspace;
pub mod session_verbs;
pub mod string;

/// All families, in the order COMMAND lists them.
pub const FAMILIES: &[&[Command]] = &[
    string::COMMANDS,
    bitmap::COMMANDS,
    keys::COMMANDS,
    expire::COMMANDS,
    keyspace::COMMANDS,
    connection::COMMANDS,
    session_verbs::COMMANDS,
];
