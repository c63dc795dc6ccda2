//! Hashes: HSET, HGET and their kin.
//!
//! The table of the commands is here, the handlers are in `hash/`.
//! Invariant: a command that changes nothing applies nothing.

mod change;
mod draws;
mod read;

use crate::command::flag::{DENYOOM, FAST};
use crate::command::{Command, Group, Handler, KeySpec};

const HASH: Command =
    Command { keys: KeySpec::ONE, group: Group::Hash, since: "2.0.0", ..Command::BASE };

const O_HASH: &str = "O(N) where N is the size of the hash.";

/// All hash commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "hset",
        arity: -4,
        handler: Handler::Write(change::hset),
        flags: DENYOOM | FAST,
        summary: "Creates or modifies the value of a field in a hash.",
        complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs \
                     when the command is called with multiple field/value pairs.",
        ..HASH
    },
    Command {
        name: "hmset",
        arity: -4,
        handler: Handler::Write(change::hmset),
        flags: DENYOOM | FAST,
        summary: "Sets the values of multiple fields.",
        complexity: "O(N) where N is the number of fields being set.",
        ..HASH
    },
    Command {
        name: "hsetnx",
        arity: 4,
        handler: Handler::Write(change::hsetnx),
        flags: DENYOOM | FAST,
        summary: "Sets the value of a field in a hash only when the field doesn't exist.",
        ..HASH
    },
    Command {
        name: "hget",
        arity: 3,
        handler: Handler::Read(read::hget),
        flags: FAST,
        summary: "Returns the value of a field in a hash.",
        ..HASH
    },
    Command {
        name: "hmget",
        arity: -3,
        handler: Handler::Read(read::hmget),
        flags: FAST,
        summary: "Returns the values of all fields in a hash.",
        complexity: "O(N) where N is the number of fields being requested.",
        ..HASH
    },
    Command {
        name: "hgetall",
        arity: 2,
        handler: Handler::Read(read::hgetall),
        summary: "Returns all fields and values in a hash.",
        complexity: O_HASH,
        ..HASH
    },
    Command {
        name: "hdel",
        arity: -3,
        handler: Handler::Write(change::hdel),
        flags: FAST,
        summary: "Deletes one or more fields and their values from a hash. Deletes the hash if \
                  no fields remain.",
        complexity: "O(N) where N is the number of fields to be removed.",
        ..HASH
    },
    Command {
        name: "hexists",
        arity: 3,
        handler: Handler::Read(read::hexists),
        flags: FAST,
        summary: "Determines whether a field exists in a hash.",
        ..HASH
    },
    Command {
        name: "hincrby",
        arity: 4,
        handler: Handler::Write(change::hincrby),
        flags: DENYOOM | FAST,
        summary: "Increments the integer value of a field in a hash by a number. Uses 0 as \
                  initial value if the field doesn't exist.",
        ..HASH
    },
    Command {
        name: "hincrbyfloat",
        arity: 4,
        handler: Handler::Write(change::hincrbyfloat),
        flags: DENYOOM | FAST,
        since: "2.6.0",
        summary: "Increments the floating point value of a field by a number. Uses 0 as initial \
                  value if the field doesn't exist.",
        ..HASH
    },
    Command {
        name: "hkeys",
        arity: 2,
        handler: Handler::Read(read::hkeys),
        summary: "Returns all fields in a hash.",
        complexity: O_HASH,
        ..HASH
    },
    Command {
        name: "hvals",
        arity: 2,
        handler: Handler::Read(read::hvals),
        summary: "Returns all values in a hash.",
        complexity: O_HASH,
        ..HASH
    },
    Command {
        name: "hlen",
        arity: 2,
        handler: Handler::Read(read::hlen),
        flags: FAST,
        summary: "Returns the number of fields in a hash.",
        ..HASH
    },
    Command {
        name: "hstrlen",
        arity: 3,
        handler: Handler::Read(read::hstrlen),
        flags: FAST,
        since: "3.2.0",
        summary: "Returns the length of the value of a field.",
        ..HASH
    },
    Command {
        name: "hrandfield",
        arity: -2,
        handler: Handler::Read(draws::hrandfield),
        since: "6.2.0",
        summary: "Returns one or more random fields from a hash.",
        complexity: "O(N) where N is the number of fields returned",
        ..HASH
    },
    Command {
        name: "hscan",
        arity: -3,
        handler: Handler::Read(read::hscan),
        since: "2.8.0",
        summary: "Iterates over fields and values of a hash.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough \
                     command calls for the cursor to return back to 0. N is the number of \
                     elements inside the collection.",
        ..HASH
    },
];

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn hset_counts_new_fields() {
        run_script("hash.hset.txt");
    }

    #[test]
    fn hmset_answers_ok() {
        run_script("hash.hmset.txt");
    }

    #[test]
    fn hsetnx_sets_a_field_once() {
        run_script("hash.hsetnx.txt");
    }

    #[test]
    fn hget_and_hmget_answer_null_for_what_is_not_there() {
        run_script("hash.hget.txt");
    }

    #[test]
    fn hgetall_is_a_map_in_resp3() {
        run_script("hash.hgetall.txt");
    }

    #[test]
    fn hlen_hstrlen_and_hexists_look_only() {
        run_script("hash.hlen.txt");
    }

    #[test]
    fn the_last_field_takes_the_hash_with_it() {
        run_script("hash.hdel.txt");
    }

    #[test]
    fn hincrby_refuses_what_would_overflow() {
        run_script("hash.hincrby.txt");
    }

    #[test]
    fn hincrbyfloat_gives_exact_decimals() {
        run_script("hash.hincrbyfloat.txt");
    }

    #[test]
    fn hrandfield_nests_pairs_in_resp3_and_bounds_its_reply() {
        run_script("hash.hrandfield.txt");
    }

    #[test]
    fn hscan_filters_by_field() {
        run_script("hash.hscan.txt");
    }

    #[test]
    fn hash_commands_that_change_nothing_leave_watches_alone() {
        run_script("hash.watch.txt");
    }
}
