//! Sorted sets: the declarations of all Z commands.
//!
//! Handlers lie beside this file by what they do: `add` changes single members, `range` works on
//! spans of ranks, `combine` on several keys, `pop` takes from the ends, `random` draws, `read`
//! is the rest. Invariant: an op carries final scores and ranks; nothing is decided while it is
//! applied.

mod add;
mod bounds;
mod combine;
mod pop;
mod random;
mod range;
mod read;
mod show;

use crate::command::flag::{DENYOOM, FAST, LONG};
use crate::command::{Command, Group, Handler, KeySpec};

const ZSET: Command = Command { keys: KeySpec::ONE, group: Group::SortedSet, ..Command::BASE };

/// All sorted-set commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "zadd",
        arity: -4,
        handler: Handler::Write(add::zadd),
        flags: DENYOOM | FAST,
        since: "1.2.0",
        summary: "Adds one or more members to a sorted set, or updates their scores. Creates the \
            key if it doesn't exist.",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the \
            sorted set.",
        ..ZSET
    },
    Command {
        name: "zincrby",
        arity: 4,
        handler: Handler::Write(add::zincrby),
        flags: DENYOOM | FAST,
        since: "1.2.0",
        summary: "Increments the score of a member in a sorted set.",
        complexity: "O(log(N)) where N is the number of elements in the sorted set.",
        ..ZSET
    },
    Command {
        name: "zrem",
        arity: -3,
        handler: Handler::Write(add::zrem),
        flags: FAST,
        since: "1.2.0",
        summary: "Removes one or more members from a sorted set. Deletes the sorted set if all \
            members were removed.",
        complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the \
            number of elements to be removed.",
        ..ZSET
    },
    Command {
        name: "zcard",
        arity: 2,
        handler: Handler::Read(read::zcard),
        flags: FAST,
        since: "1.2.0",
        summary: "Returns the number of members in a sorted set.",
        ..ZSET
    },
    Command {
        name: "zcount",
        arity: 4,
        handler: Handler::Read(range::zcount),
        flags: FAST,
        since: "2.0.0",
        summary: "Returns the count of members in a sorted set that have scores within a range.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        ..ZSET
    },
    Command {
        name: "zlexcount",
        arity: 4,
        handler: Handler::Read(range::zlexcount),
        flags: FAST,
        since: "2.8.9",
        summary: "Returns the number of members in a sorted set within a lexicographical range.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        ..ZSET
    },
    Command {
        name: "zscore",
        arity: 3,
        handler: Handler::Read(read::zscore),
        flags: FAST,
        since: "1.2.0",
        summary: "Returns the score of a member in a sorted set.",
        ..ZSET
    },
    Command {
        name: "zmscore",
        arity: -3,
        handler: Handler::Read(read::zmscore),
        flags: FAST,
        since: "6.2.0",
        summary: "Returns the score of one or more members in a sorted set.",
        complexity: "O(N) where N is the number of members being requested.",
        ..ZSET
    },
    Command {
        name: "zrank",
        arity: -3,
        handler: Handler::Read(read::zrank),
        flags: FAST,
        since: "2.0.0",
        summary: "Returns the index of a member in a sorted set ordered by ascending scores.",
        complexity: "O(log(N))",
        ..ZSET
    },
    Command {
        name: "zrevrank",
        arity: -3,
        handler: Handler::Read(read::zrevrank),
        flags: FAST,
        since: "2.0.0",
        summary: "Returns the index of a member in a sorted set ordered by descending scores.",
        complexity: "O(log(N))",
        ..ZSET
    },
    Command {
        name: "zrange",
        arity: -4,
        handler: Handler::Read(range::zrange),
        since: "1.2.0",
        summary: "Returns members in a sorted set within a range of indexes.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements returned.",
        ..ZSET
    },
    Command {
        name: "zrangestore",
        arity: -5,
        handler: Handler::Write(range::zrangestore),
        keys: KeySpec::TWO,
        flags: DENYOOM | LONG,
        since: "6.2.0",
        summary: "Stores a range of members from sorted set in a key.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements stored into the destination key.",
        ..ZSET
    },
    Command {
        name: "zrevrange",
        arity: -4,
        handler: Handler::Read(range::zrevrange),
        since: "1.2.0",
        summary: "Returns members in a sorted set within a range of indexes in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements returned.",
        ..ZSET
    },
    Command {
        name: "zrangebyscore",
        arity: -4,
        handler: Handler::Read(range::zrangebyscore),
        since: "1.0.5",
        summary: "Returns members in a sorted set within a range of scores.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements being returned. If M is constant (e.g. always asking for the first \
            10 elements with LIMIT), you can consider it O(log(N)).",
        ..ZSET
    },
    Command {
        name: "zrevrangebyscore",
        arity: -4,
        handler: Handler::Read(range::zrevrangebyscore),
        since: "2.2.0",
        summary: "Returns members in a sorted set within a range of scores in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements being returned. If M is constant (e.g. always asking for the first \
            10 elements with LIMIT), you can consider it O(log(N)).",
        ..ZSET
    },
    Command {
        name: "zrangebylex",
        arity: -4,
        handler: Handler::Read(range::zrangebylex),
        since: "2.8.9",
        summary: "Returns members in a sorted set within a lexicographical range.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements being returned. If M is constant (e.g. always asking for the first \
            10 elements with LIMIT), you can consider it O(log(N)).",
        ..ZSET
    },
    Command {
        name: "zrevrangebylex",
        arity: -4,
        handler: Handler::Read(range::zrevrangebylex),
        since: "2.8.9",
        summary: "Returns members in a sorted set within a lexicographical range in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements being returned. If M is constant (e.g. always asking for the first \
            10 elements with LIMIT), you can consider it O(log(N)).",
        ..ZSET
    },
    Command {
        name: "zremrangebyrank",
        arity: 4,
        handler: Handler::Write(range::zremrangebyrank),
        since: "2.0.0",
        summary: "Removes members in a sorted set within a range of indexes. Deletes the sorted \
            set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements removed by the operation.",
        ..ZSET
    },
    Command {
        name: "zremrangebyscore",
        arity: 4,
        handler: Handler::Write(range::zremrangebyscore),
        since: "1.2.0",
        summary: "Removes members in a sorted set within a range of scores. Deletes the sorted \
            set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements removed by the operation.",
        ..ZSET
    },
    Command {
        name: "zremrangebylex",
        arity: 4,
        handler: Handler::Write(range::zremrangebylex),
        since: "2.8.9",
        summary: "Removes members in a sorted set within a lexicographical range. Deletes the \
            sorted set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements removed by the operation.",
        ..ZSET
    },
    Command {
        name: "zpopmin",
        arity: -2,
        handler: Handler::Write(pop::zpopmin),
        flags: FAST,
        since: "5.0.0",
        summary: "Returns the lowest-scoring members from a sorted set after removing them. \
            Deletes the sorted set if the last member was popped.",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M \
            being the number of elements popped.",
        ..ZSET
    },
    Command {
        name: "zpopmax",
        arity: -2,
        handler: Handler::Write(pop::zpopmax),
        flags: FAST,
        since: "5.0.0",
        summary: "Returns the highest-scoring members from a sorted set after removing them. \
            Deletes the sorted set if the last member was popped.",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M \
            being the number of elements popped.",
        ..ZSET
    },
    Command {
        name: "zmpop",
        arity: -4,
        handler: Handler::Write(pop::zmpop),
        keys: KeySpec::Counted { at: 1, dest: None },
        since: "7.0.0",
        summary: "Returns the highest- or lowest-scoring members from one or more sorted sets \
            after removing them. Deletes the sorted set if the last member was popped.",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the \
            number of elements in the sorted set, and M being the number of elements popped.",
        ..ZSET
    },
    Command {
        name: "bzpopmin",
        arity: -3,
        handler: Handler::Block(pop::bzpopmin),
        keys: KeySpec::ALL_BUT_LAST,
        flags: FAST,
        since: "5.0.0",
        summary: "Removes and returns the member with the lowest score from one or more sorted \
            sets. Blocks until a member is available otherwise. Deletes the sorted set if the \
            last element was popped.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        ..ZSET
    },
    Command {
        name: "bzpopmax",
        arity: -3,
        handler: Handler::Block(pop::bzpopmax),
        keys: KeySpec::ALL_BUT_LAST,
        flags: FAST,
        since: "5.0.0",
        summary: "Removes and returns the member with the highest score from one or more sorted \
            sets. Blocks until a member available otherwise. Deletes the sorted set if the last \
            element was popped.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        ..ZSET
    },
    Command {
        name: "bzmpop",
        arity: -5,
        handler: Handler::Block(pop::bzmpop),
        keys: KeySpec::Counted { at: 2, dest: None },
        since: "7.0.0",
        summary: "Removes and returns a member by score from one or more sorted sets. Blocks \
            until a member is available otherwise. Deletes the sorted set if the last element was \
            popped.",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the \
            number of elements in the sorted set, and M being the number of elements popped.",
        ..ZSET
    },
    Command {
        name: "zrandmember",
        arity: -2,
        handler: Handler::Read(random::zrandmember),
        since: "6.2.0",
        summary: "Returns one or more random members from a sorted set.",
        complexity: "O(N) where N is the number of members returned",
        ..ZSET
    },
    Command {
        name: "zunion",
        arity: -3,
        handler: Handler::Read(combine::zunion),
        keys: KeySpec::Counted { at: 1, dest: None },
        flags: LONG,
        since: "6.2.0",
        summary: "Returns the union of multiple sorted sets.",
        complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, \
            and M being the number of elements in the resulting sorted set.",
        ..ZSET
    },
    Command {
        name: "zunionstore",
        arity: -4,
        handler: Handler::Write(combine::zunionstore),
        keys: KeySpec::Counted { at: 2, dest: Some(1) },
        flags: DENYOOM | LONG,
        since: "2.0.0",
        summary: "Stores the union of multiple sorted sets in a key.",
        complexity: "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, \
            and M being the number of elements in the resulting sorted set.",
        ..ZSET
    },
    Command {
        name: "zinter",
        arity: -3,
        handler: Handler::Read(combine::zinter),
        keys: KeySpec::Counted { at: 1, dest: None },
        flags: LONG,
        since: "6.2.0",
        summary: "Returns the intersect of multiple sorted sets.",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K \
            being the number of input sorted sets and M being the number of elements in the \
            resulting sorted set.",
        ..ZSET
    },
    Command {
        name: "zinterstore",
        arity: -4,
        handler: Handler::Write(combine::zinterstore),
        keys: KeySpec::Counted { at: 2, dest: Some(1) },
        flags: DENYOOM | LONG,
        since: "2.0.0",
        summary: "Stores the intersect of multiple sorted sets in a key.",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K \
            being the number of input sorted sets and M being the number of elements in the \
            resulting sorted set.",
        ..ZSET
    },
    Command {
        name: "zdiff",
        arity: -3,
        handler: Handler::Read(combine::zdiff),
        keys: KeySpec::Counted { at: 1, dest: None },
        flags: LONG,
        since: "6.2.0",
        summary: "Returns the difference between multiple sorted sets.",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all \
            the sets, N is the size of the first set, and K is the size of the result set.",
        ..ZSET
    },
    Command {
        name: "zdiffstore",
        arity: -4,
        handler: Handler::Write(combine::zdiffstore),
        keys: KeySpec::Counted { at: 2, dest: Some(1) },
        flags: DENYOOM | LONG,
        since: "6.2.0",
        summary: "Stores the difference of multiple sorted sets in a key.",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all \
            the sets, N is the size of the first set, and K is the size of the result set.",
        ..ZSET
    },
    Command {
        name: "zintercard",
        arity: -3,
        handler: Handler::Read(combine::zintercard),
        keys: KeySpec::Counted { at: 1, dest: None },
        flags: LONG,
        since: "7.0.0",
        summary: "Returns the number of members of the intersect of multiple sorted sets.",
        complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the \
            number of input sorted sets.",
        ..ZSET
    },
    Command {
        name: "zscan",
        arity: -3,
        handler: Handler::Read(read::zscan),
        since: "2.8.0",
        summary: "Iterates over members and scores of a sorted set.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command \
            calls for the cursor to return back to 0. N is the number of elements inside the \
            collection.",
        ..ZSET
    },
];

#[cfg(test)]
mod tests;
