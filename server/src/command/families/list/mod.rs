//! Lists: the commands that push and pop at the ends, those that look and work inside, those
//! that move items between lists, and those that wait for an item.
//!
//! `ends`, `inside`, `moves` and `blocking` hold the handlers; here are the declarations and
//! what the handlers share. A list has one form for every size, reported as `quicklist`.

mod blocking;
mod ends;
mod inside;
mod moves;
#[cfg(test)]
mod tests;

use crate::command::flag::{DENYOOM, FAST};
use crate::command::{Args, Command, CommandError, Cx, Group, Handler, KeySpec};
use crate::slot::{End, Key, Op, Owned};
use crate::store::list::List;

/// What the entries have in common.
const BASE: Command = Command { group: Group::List, keys: KeySpec::ONE, ..Command::BASE };

const PUSH: Command = Command {
    arity: -3,
    flags: DENYOOM | FAST,
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is \
                 called with multiple arguments.",
    ..BASE
};

const POP: Command = Command {
    arity: -2,
    flags: FAST,
    complexity: "O(N) where N is the number of elements returned",
    ..BASE
};

const MPOP_COMPLEXITY: &str = "O(N+M) where N is the number of provided keys and M is the number \
                               of elements returned.";

const KEYS_COMPLEXITY: &str = "O(N) where N is the number of provided keys.";

/// All list commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "lpush",
        handler: Handler::Write(ends::lpush),
        summary: "Prepends one or more elements to a list. Creates the key if it doesn't exist.",
        ..PUSH
    },
    Command {
        name: "rpush",
        handler: Handler::Write(ends::rpush),
        summary: "Appends one or more elements to a list. Creates the key if it doesn't exist.",
        ..PUSH
    },
    Command {
        name: "lpushx",
        handler: Handler::Write(ends::lpushx),
        since: "2.2.0",
        summary: "Prepends one or more elements to a list only when the list exists.",
        ..PUSH
    },
    Command {
        name: "rpushx",
        handler: Handler::Write(ends::rpushx),
        since: "2.2.0",
        summary: "Appends an element to a list only when the list exists.",
        ..PUSH
    },
    Command {
        name: "lpop",
        handler: Handler::Write(ends::lpop),
        summary: "Returns the first elements in a list after removing it. Deletes the list if \
                  the last element was popped.",
        ..POP
    },
    Command {
        name: "rpop",
        handler: Handler::Write(ends::rpop),
        summary: "Returns and removes the last elements of a list. Deletes the list if the last \
                  element was popped.",
        ..POP
    },
    Command {
        name: "lmpop",
        arity: -4,
        handler: Handler::Write(ends::lmpop),
        keys: KeySpec::Counted { at: 1, dest: None },
        since: "7.0.0",
        summary: "Returns multiple elements from a list after removing them. Deletes the list if \
                  the last element was popped.",
        complexity: MPOP_COMPLEXITY,
        ..BASE
    },
    Command {
        name: "llen",
        arity: 2,
        handler: Handler::Read(inside::llen),
        flags: FAST,
        summary: "Returns the length of a list.",
        ..BASE
    },
    Command {
        name: "lindex",
        arity: 3,
        handler: Handler::Read(inside::lindex),
        summary: "Returns an element from a list by its index.",
        complexity: "O(N) where N is the number of elements to traverse to get to the element at \
                     index. This makes asking for the first or the last element of the list O(1).",
        ..BASE
    },
    Command {
        name: "lset",
        arity: 4,
        handler: Handler::Write(inside::lset),
        flags: DENYOOM,
        summary: "Sets the value of an element in a list by its index.",
        complexity: "O(N) where N is the length of the list. Setting either the first or the \
                     last element of the list is O(1).",
        ..BASE
    },
    Command {
        name: "linsert",
        arity: 5,
        handler: Handler::Write(inside::linsert),
        flags: DENYOOM,
        since: "2.2.0",
        summary: "Inserts an element before or after another element in a list.",
        complexity: "O(N) where N is the number of elements to traverse before seeing the value \
                     pivot. This means that inserting somewhere on the left end on the list \
                     (head) can be considered O(1) and inserting somewhere on the right end \
                     (tail) is O(N).",
        ..BASE
    },
    Command {
        name: "lrange",
        arity: 4,
        handler: Handler::Read(inside::lrange),
        summary: "Returns a range of elements from a list.",
        complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, \
                     from nearest end (HEAD or TAIL) for large lists; and N is the number of \
                     elements in the specified range.",
        ..BASE
    },
    Command {
        name: "ltrim",
        arity: 4,
        handler: Handler::Write(inside::ltrim),
        summary: "Removes elements from both ends a list. Deletes the list if all elements were \
                  trimmed.",
        complexity: "O(N) where N is the number of elements to be removed by the operation.",
        ..BASE
    },
    Command {
        name: "lrem",
        arity: 4,
        handler: Handler::Write(inside::lrem),
        summary: "Removes elements from a list. Deletes the list if the last element was removed.",
        complexity: "O(N+M) where N is the length of the list and M is the number of elements \
                     removed.",
        ..BASE
    },
    Command {
        name: "lpos",
        arity: -3,
        handler: Handler::Read(inside::lpos),
        since: "6.0.6",
        summary: "Returns the index of matching elements in a list.",
        complexity: "O(N) where N is the number of elements in the list, for the average case. \
                     When searching for elements near the head or the tail of the list, or when \
                     the MAXLEN option is provided, the command may run in constant time.",
        ..BASE
    },
    Command {
        name: "lmove",
        arity: 5,
        handler: Handler::Write(moves::lmove),
        keys: KeySpec::TWO,
        flags: DENYOOM,
        since: "6.2.0",
        summary: "Returns an element after popping it from one list and pushing it to another. \
                  Deletes the list if the last element was moved.",
        ..BASE
    },
    Command {
        name: "rpoplpush",
        arity: 3,
        handler: Handler::Write(moves::rpoplpush),
        keys: KeySpec::TWO,
        flags: DENYOOM,
        since: "1.2.0",
        summary: "Returns the last element of a list after removing and pushing it to another \
                  list. Deletes the list if the last element was popped.",
        ..BASE
    },
    Command {
        name: "blpop",
        arity: -3,
        handler: Handler::Block(blocking::blpop),
        keys: KeySpec::ALL_BUT_LAST,
        since: "2.0.0",
        summary: "Removes and returns the first element in a list. Blocks until an element is \
                  available otherwise. Deletes the list if the last element was popped.",
        complexity: KEYS_COMPLEXITY,
        ..BASE
    },
    Command {
        name: "brpop",
        arity: -3,
        handler: Handler::Block(blocking::brpop),
        keys: KeySpec::ALL_BUT_LAST,
        since: "2.0.0",
        summary: "Removes and returns the last element in a list. Blocks until an element is \
                  available otherwise. Deletes the list if the last element was popped.",
        complexity: KEYS_COMPLEXITY,
        ..BASE
    },
    Command {
        name: "blmove",
        arity: 6,
        handler: Handler::Block(blocking::blmove),
        keys: KeySpec::TWO,
        flags: DENYOOM,
        since: "6.2.0",
        summary: "Pops an element from a list, pushes it to another list and returns it. Blocks \
                  until an element is available otherwise. Deletes the list if the last element \
                  was moved.",
        ..BASE
    },
    Command {
        name: "brpoplpush",
        arity: 4,
        handler: Handler::Block(blocking::brpoplpush),
        keys: KeySpec::TWO,
        flags: DENYOOM,
        since: "2.2.0",
        summary: "Pops an element from a list, pushes it to another list and returns it. Block \
                  until an element is available otherwise. Deletes the list if the last element \
                  was popped.",
        ..BASE
    },
    Command {
        name: "blmpop",
        arity: -5,
        handler: Handler::Block(blocking::blmpop),
        keys: KeySpec::Counted { at: 2, dest: None },
        since: "7.0.0",
        summary: "Pops the first element from one of multiple lists. Blocks until an element is \
                  available otherwise. Deletes the list if the last element was popped.",
        complexity: MPOP_COMPLEXITY,
        ..BASE
    },
];

/// LEFT or RIGHT.
fn parse_end(word: &[u8]) -> Result<End, CommandError> {
    if word.eq_ignore_ascii_case(b"left") {
        Ok(End::Front)
    } else if word.eq_ignore_ascii_case(b"right") {
        Ok(End::Back)
    } else {
        Err(CommandError::Syntax)
    }
}

/// The item at one end; a list that is there is never empty.
fn end_item(list: &List, end: End) -> Option<&[u8]> {
    match end {
        End::Front => list.get(0),
        End::Back => list.get(list.len() - 1),
    }
}

/// Writes the first or last `count` items, in the order in which they would be popped.
fn write_items(list: &List, end: End, count: usize, cx: &mut Cx<'_>) {
    cx.reply.array(count);
    match end {
        End::Front => list.iter().take(count).for_each(|item| cx.reply.bulk(item)),
        End::Back => {
            let items = list.iter_rev_from(list.len() - 1);
            items.take(count).for_each(|item| cx.reply.bulk(item));
        }
    }
}

/// Drops `count` of the list's `len` items at one end. A list that goes as a whole is deleted as
/// a whole: a big one is freed outside the lock then.
fn drop_items(owned: &mut Owned<'_>, key: Key<'_>, end: End, count: usize, len: usize) {
    if count >= len {
        owned.apply(Op::Delete { key });
    } else if count > 0 {
        owned.apply(Op::ListPop { key, end, count });
    }
}

/// The first of the keys in words `from..to` that holds a list: its word and length. A key of
/// another type is an error; on behalf of a waiting client it only means "still not there".
fn first_list(
    owned: &Owned<'_>,
    args: &Args<'_>,
    cx: &Cx<'_>,
    from: usize,
    to: usize,
) -> Result<Option<(usize, usize)>, CommandError> {
    for word in from..to {
        if !cx.considers(args.at(word)) {
            continue;
        }
        match owned.keys().list(args.key(word)) {
            Ok(None) => {}
            Ok(Some(list)) => return Ok(Some((word, list.len()))),
            Err(_) if cx.serving => {}
            Err(wrong_type) => return Err(wrong_type.into()),
        }
    }
    Ok(None)
}
