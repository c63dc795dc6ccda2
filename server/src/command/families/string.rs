//! Strings: the table of their commands. GET, SET and what is SET by another name are in `set`,
//! parts of strings in `part`, numbers in `number`; bits are a family of their own.

mod number;
mod part;
mod set;

use crate::command::flag::{DENYOOM, FAST};
use crate::command::{Command, Group, Handler, KeySpec};

pub(super) use part::clamp;

const STRING: Command = Command { keys: KeySpec::ONE, group: Group::String, ..Command::BASE };
/// Keys and values in turn.
const PAIRS: KeySpec = KeySpec::Range { first: 1, last: -1, step: 2 };

/// All string commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "get",
        arity: 2,
        handler: Handler::Read(set::get),
        flags: FAST,
        summary: "Returns the string value of a key.",
        ..STRING
    },
    Command {
        name: "set",
        arity: -3,
        handler: Handler::Write(set::set),
        flags: DENYOOM,
        summary: "Sets the string value of a key, ignoring its type. The key is created if it \
            doesn't exist.",
        ..STRING
    },
    Command {
        name: "setnx",
        arity: 3,
        handler: Handler::Write(set::setnx),
        flags: DENYOOM | FAST,
        summary: "Set the string value of a key only when the key doesn't exist.",
        ..STRING
    },
    Command {
        name: "setex",
        arity: 4,
        handler: Handler::Write(set::setex),
        flags: DENYOOM,
        since: "2.0.0",
        summary: "Sets the string value and expiration time of a key. Creates the key if it \
            doesn't exist.",
        ..STRING
    },
    Command {
        name: "psetex",
        arity: 4,
        handler: Handler::Write(set::psetex),
        flags: DENYOOM,
        since: "2.6.0",
        summary: "Sets both string value and expiration time in milliseconds of a key. The key is \
            created if it doesn't exist.",
        ..STRING
    },
    Command {
        name: "getset",
        arity: 3,
        handler: Handler::Write(set::getset),
        flags: DENYOOM | FAST,
        summary: "Returns the previous string value of a key after setting it to a new value.",
        ..STRING
    },
    Command {
        name: "getdel",
        arity: 2,
        handler: Handler::Write(set::getdel),
        flags: FAST,
        since: "6.2.0",
        summary: "Returns the string value of a key after deleting the key.",
        ..STRING
    },
    Command {
        name: "getex",
        arity: -2,
        handler: Handler::Write(set::getex),
        flags: FAST,
        since: "6.2.0",
        summary: "Returns the string value of a key after setting its expiration time.",
        ..STRING
    },
    Command {
        name: "mget",
        arity: -2,
        handler: Handler::Read(set::mget),
        keys: KeySpec::ALL,
        flags: FAST,
        summary: "Atomically returns the string values of one or more keys.",
        complexity: "O(N) where N is the number of keys to retrieve.",
        ..STRING
    },
    Command {
        name: "mset",
        arity: -3,
        handler: Handler::Write(set::mset),
        keys: PAIRS,
        flags: DENYOOM,
        since: "1.0.1",
        summary: "Atomically creates or modifies the string values of one or more keys.",
        complexity: "O(N) where N is the number of keys to set.",
        ..STRING
    },
    Command {
        name: "msetnx",
        arity: -3,
        handler: Handler::Write(set::msetnx),
        keys: PAIRS,
        flags: DENYOOM,
        since: "1.0.1",
        summary: "Atomically modifies the string values of one or more keys only when all keys \
            don't exist.",
        complexity: "O(N) where N is the number of keys to set.",
        ..STRING
    },
    Command {
        name: "append",
        arity: 3,
        handler: Handler::Write(part::append),
        flags: DENYOOM | FAST,
        since: "2.0.0",
        summary: "Appends a string to the value of a key. Creates the key if it doesn't exist.",
        complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is \
            small and the already present value is of any size, since the dynamic string \
            library used by Redis will double the free space available on every \
            reallocation.",
        ..STRING
    },
    Command {
        name: "strlen",
        arity: 2,
        handler: Handler::Read(part::strlen),
        flags: FAST,
        since: "2.2.0",
        summary: "Returns the length of a string value.",
        ..STRING
    },
    Command {
        name: "getrange",
        arity: 4,
        handler: Handler::Read(part::getrange),
        since: "2.4.0",
        summary: "Returns a substring of the string stored at a key.",
        complexity: "O(N) where N is the length of the returned string. The complexity is \
            ultimately determined by the returned length, but because creating a substring \
            from an existing string is very cheap, it can be considered O(1) for small \
            strings.",
        ..STRING
    },
    Command {
        name: "substr",
        arity: 4,
        handler: Handler::Read(part::getrange),
        summary: "Returns a substring from a string value.",
        complexity: "O(N) where N is the length of the returned string. The complexity is \
            ultimately determined by the returned length, but because creating a substring \
            from an existing string is very cheap, it can be considered O(1) for small \
            strings.",
        ..STRING
    },
    Command {
        name: "setrange",
        arity: 4,
        handler: Handler::Write(part::setrange),
        flags: DENYOOM,
        since: "2.2.0",
        summary: "Overwrites a part of a string value with another by an offset. Creates the key \
            if it doesn't exist.",
        complexity: "O(1), not counting the time taken to copy the new string in place. Usually, \
            this string is very small so the amortized complexity is O(1). Otherwise, \
            complexity is O(M) with M being the length of the value argument.",
        ..STRING
    },
    Command {
        name: "incr",
        arity: 2,
        handler: Handler::Write(number::incr),
        flags: DENYOOM | FAST,
        summary: "Increments the integer value of a key by one. Uses 0 as initial value if the key \
            doesn't exist.",
        ..STRING
    },
    Command {
        name: "decr",
        arity: 2,
        handler: Handler::Write(number::decr),
        flags: DENYOOM | FAST,
        summary: "Decrements the integer value of a key by one. Uses 0 as initial value if the key \
            doesn't exist.",
        ..STRING
    },
    Command {
        name: "incrby",
        arity: 3,
        handler: Handler::Write(number::incrby),
        flags: DENYOOM | FAST,
        summary: "Increments the integer value of a key by a number. Uses 0 as initial value if \
            the key doesn't exist.",
        ..STRING
    },
    Command {
        name: "decrby",
        arity: 3,
        handler: Handler::Write(number::decrby),
        flags: DENYOOM | FAST,
        summary: "Decrements a number from the integer value of a key. Uses 0 as initial value if \
            the key doesn't exist.",
        ..STRING
    },
    Command {
        name: "incrbyfloat",
        arity: 3,
        handler: Handler::Write(number::incrbyfloat),
        flags: DENYOOM | FAST,
        since: "2.6.0",
        summary: "Increment the floating point value of a key by a number. Uses 0 as initial value \
            if the key doesn't exist.",
        ..STRING
    },
];

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn set_and_its_options() {
        run_script("string.set.txt");
    }

    #[test]
    fn expire_times_of_set_never_wrap() {
        run_script("string.set_times.txt");
    }

    #[test]
    fn strings_are_not_found_in_keys_of_other_types() {
        run_script("string.wrong_type.txt");
    }

    #[test]
    fn many_strings_at_once() {
        run_script("string.mset.txt");
    }

    #[test]
    fn parts_of_strings() {
        run_script("string.parts.txt");
    }

    #[test]
    fn integers_are_strict_and_never_wrap() {
        run_script("string.incr.txt");
    }

    #[test]
    fn decimals_are_exact() {
        run_script("string.incrbyfloat.txt");
    }
}
