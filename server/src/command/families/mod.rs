//! The command families: each declares its commands in one slice, beside their handlers.

use crate::command::Command;

pub mod admin;
pub mod bitmap;
pub mod client;
pub mod cluster;
pub mod command_cmd;
pub mod config_cmd;
pub mod connection;
pub mod debug;
pub mod draw;
pub mod expire;
pub mod expiry_time;
pub mod function;
pub mod hash;
pub mod help;
pub mod info;
pub mod keys;
pub mod keyspace;
pub mod list;
pub mod memory;
pub mod number;
pub mod scan;
pub mod session_verbs;
pub mod set;
pub mod slotd;
pub mod slowlog;
pub mod string;
pub mod timeout;
pub mod zset;

/// All families, in the order COMMAND lists them.
pub const FAMILIES: &[&[Command]] = &[
    string::COMMANDS,
    keys::COMMANDS,
    expire::COMMANDS,
    keyspace::COMMANDS,
    connection::COMMANDS,
    session_verbs::COMMANDS,
    client::COMMANDS,
    cluster::COMMANDS,
    slotd::COMMANDS,
    function::COMMANDS,
    config_cmd::COMMANDS,
    command_cmd::COMMANDS,
    info::COMMANDS,
    memory::COMMANDS,
    slowlog::COMMANDS,
    admin::COMMANDS,
    debug::COMMANDS,
    bitmap::COMMANDS,
    list::COMMANDS,
    hash::COMMANDS,
    set::COMMANDS,
    zset::COMMANDS,
];
