//! Sets: SADD, SMEMBERS, SINTER and their kin.
//!
//! The table of the commands is here, the handlers are in `set/`.
//! Invariant: a command that changes nothing applies nothing; random members are chosen before
//! they become an op.

mod algebra;
mod basic;
mod draws;

use crate::command::flag::{DENYOOM, FAST, LONG};
use crate::command::{Command, Group, Handler, KeySpec};

const SET: Command = Command { keys: KeySpec::ONE, group: Group::Set, ..Command::BASE };

const O_INTER: &str = "O(N*M) worst case where N is the cardinality of the smallest set and M is \
                       the number of sets.";
const O_ALL: &str = "O(N) where N is the total number of elements in all given sets.";

/// All set commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "sadd",
        arity: -3,
        handler: Handler::Write(basic::sadd),
        flags: DENYOOM | FAST,
        summary: "Adds one or more members to a set. Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is \
                     called with multiple arguments.",
        ..SET
    },
    Command {
        name: "srem",
        arity: -3,
        handler: Handler::Write(basic::srem),
        flags: FAST,
        summary: "Removes one or more members from a set. Deletes the set if the last member was \
                  removed.",
        complexity: "O(N) where N is the number of members to be removed.",
        ..SET
    },
    Command {
        name: "smembers",
        arity: 2,
        handler: Handler::Read(basic::smembers),
        summary: "Returns all members of a set.",
        complexity: "O(N) where N is the set cardinality.",
        ..SET
    },
    Command {
        name: "sismember",
        arity: 3,
        handler: Handler::Read(basic::sismember),
        flags: FAST,
        summary: "Determines whether a member belongs to a set.",
        ..SET
    },
    Command {
        name: "smismember",
        arity: -3,
        handler: Handler::Read(basic::smismember),
        flags: FAST,
        since: "6.2.0",
        summary: "Determines whether multiple members belong to a set.",
        complexity: "O(N) where N is the number of elements being checked for membership",
        ..SET
    },
    Command {
        name: "scard",
        arity: 2,
        handler: Handler::Read(basic::scard),
        flags: FAST,
        summary: "Returns the number of members in a set.",
        ..SET
    },
    Command {
        name: "spop",
        arity: -2,
        handler: Handler::Write(draws::spop),
        flags: FAST,
        summary: "Returns one or more random members from a set after removing them. Deletes the \
                  set if the last member was popped.",
        complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the \
                     passed count.",
        ..SET
    },
    Command {
        name: "srandmember",
        arity: -2,
        handler: Handler::Read(draws::srandmember),
        summary: "Get one or multiple random members from a set",
        complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute \
                     value of the passed count.",
        ..SET
    },
    Command {
        name: "smove",
        arity: 4,
        handler: Handler::Write(basic::smove),
        keys: KeySpec::TWO,
        flags: FAST,
        summary: "Moves a member from one set to another.",
        ..SET
    },
    Command {
        name: "sinter",
        arity: -2,
        handler: Handler::Read(algebra::sinter),
        keys: KeySpec::ALL,
        summary: "Returns the intersect of multiple sets.",
        complexity: O_INTER,
        ..SET
    },
    Command {
        name: "sinterstore",
        arity: -3,
        handler: Handler::Write(algebra::sinterstore),
        keys: KeySpec::ALL,
        flags: DENYOOM | LONG,
        summary: "Stores the intersect of multiple sets in a key.",
        complexity: O_INTER,
        ..SET
    },
    Command {
        name: "sintercard",
        arity: -3,
        handler: Handler::Read(algebra::sintercard),
        keys: KeySpec::Counted { at: 1, dest: None },
        since: "7.0.0",
        summary: "Returns the number of members of the intersect of multiple sets.",
        complexity: O_INTER,
        ..SET
    },
    Command {
        name: "sunion",
        arity: -2,
        handler: Handler::Read(algebra::sunion),
        keys: KeySpec::ALL,
        summary: "Returns the union of multiple sets.",
        complexity: O_ALL,
        ..SET
    },
    Command {
        name: "sunionstore",
        arity: -3,
        handler: Handler::Write(algebra::sunionstore),
        keys: KeySpec::ALL,
        flags: DENYOOM | LONG,
        summary: "Stores the union of multiple sets in a key.",
        complexity: O_ALL,
        ..SET
    },
    Command {
        name: "sdiff",
        arity: -2,
        handler: Handler::Read(algebra::sdiff),
        keys: KeySpec::ALL,
        summary: "Returns the difference of multiple sets.",
        complexity: O_ALL,
        ..SET
    },
    Command {
        name: "sdiffstore",
        arity: -3,
        handler: Handler::Write(algebra::sdiffstore),
        keys: KeySpec::ALL,
        flags: DENYOOM | LONG,
        summary: "Stores the difference of multiple sets in a key.",
        complexity: O_ALL,
        ..SET
    },
    Command {
        name: "sscan",
        arity: -3,
        handler: Handler::Read(basic::sscan),
        since: "2.8.0",
        summary: "Iterates over members of a set.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough \
                     command calls for the cursor to return back to 0. N is the number of \
                     elements inside the collection.",
        ..SET
    },
];

#[cfg(test)]
mod tests {
    use crate::testing::run_script;

    #[test]
    fn sadd_counts_new_members() {
        run_script("set.sadd.txt");
    }

    #[test]
    fn the_last_member_takes_the_set_with_it() {
        run_script("set.srem.txt");
    }

    #[test]
    fn smembers_is_a_set_in_resp3() {
        run_script("set.smembers.txt");
    }

    #[test]
    fn smismember_answers_for_each_member() {
        run_script("set.smismember.txt");
    }

    #[test]
    fn spop_of_all_members_deletes_the_set() {
        run_script("set.spop.txt");
    }

    #[test]
    fn srandmember_bounds_its_reply() {
        run_script("set.srandmember.txt");
    }

    #[test]
    fn smove_checks_both_sets_before_it_moves() {
        run_script("set.smove.txt");
    }

    #[test]
    fn sinter_with_a_missing_set_is_empty() {
        run_script("set.sinter.txt");
    }

    #[test]
    fn sintercard_stops_at_its_limit() {
        run_script("set.sintercard.txt");
    }

    #[test]
    fn sunion_names_each_member_once() {
        run_script("set.sunion.txt");
    }

    #[test]
    fn sdiff_takes_all_others_from_the_first() {
        run_script("set.sdiff.txt");
    }

    #[test]
    fn an_empty_result_deletes_the_destination() {
        run_script("set.store.txt");
    }

    #[test]
    fn sscan_filters_by_member() {
        run_script("set.sscan.txt");
    }

    #[test]
    fn set_commands_that_change_nothing_leave_watches_alone() {
        run_script("set.watch.txt");
    }
}
