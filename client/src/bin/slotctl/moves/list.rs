//! What several nodes tell of moves, put together: each knows only what it gives away itself.
//!
//! Not the asking. Invariant: what is left of a move is what the node with the newest table says;
//! a node that does not know the move yet, or any more, does not end it.

use serde::Serialize;
use slots::admin::{MoveHere, MoveSource, Moves, NodeStatus};

use crate::exit::Failure;
use crate::names;

/// Fewest characters of an id that stand for all of it.
pub(crate) const MIN_PREFIX_CHARS: usize = 4;

/// A node and what it said, by its id.
pub(crate) type Heard = (String, Result<Moves, String>);

/// A move.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Move {
    /// Its id.
    pub(crate) id: String,
    /// The node the slots move to.
    pub(crate) to: String,
    /// What people call it.
    pub(crate) to_name: String,
    /// The slots that are still to go; empty: it is over.
    pub(crate) left: String,
    /// Who owns what is left.
    pub(crate) sources: Vec<MoveSource>,
    /// What each node says of what it gives away.
    pub(crate) here: Vec<Here>,
}

/// A node's word on its part of a move.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Here {
    /// Its id.
    pub(crate) node: String,
    /// What people call it.
    pub(crate) name: String,
    /// How far it is.
    #[serde(flatten)]
    pub(crate) at: MoveHere,
}

/// The moves that any of the nodes told of, by id.
pub(crate) fn merge(nodes: &[NodeStatus], heard: &[Heard]) -> Vec<Move> {
    let answers = || heard.iter().filter_map(|(node, told)| Some((node, told.as_ref().ok()?)));
    let newest = answers().map(|(_, told)| told.table_version).max().unwrap_or(0);
    let mut moves: Vec<Move> = Vec::new();
    for (node, told) in answers() {
        for status in &told.moves {
            let at = moves.iter().position(|known| known.id == status.id).unwrap_or_else(|| {
                let (id, to) = (status.id.clone(), status.to.clone());
                moves.push(Move { id, to, to_name: status.to_name.clone(), ..Move::default() });
                moves.len() - 1
            });
            let known = &mut moves[at];
            if told.table_version == newest && !status.left.is_empty() {
                known.left = status.left.clone();
                known.sources = status.sources.clone();
            }
            if let Some(here) = &status.here {
                let name = names::name_of(nodes, node).to_owned();
                known.here.push(Here { node: node.clone(), name, at: here.clone() });
            }
        }
    }
    moves.sort_by(|a, b| a.id.cmp(&b.id));
    moves
}

/// The move whose id is this or begins so. A text that could mean two means none.
pub(crate) fn find<'a>(moves: &'a [Move], text: &str) -> Result<Option<&'a Move>, Failure> {
    let ids: Vec<&str> = moves.iter().map(|known| known.id.as_str()).collect();
    let id = one_of(&ids, text)?;
    Ok(id.and_then(|id| moves.iter().find(|known| known.id == id)))
}

/// The id that is this text or begins so.
pub(crate) fn one_of<'a>(ids: &[&'a str], text: &str) -> Result<Option<&'a str>, Failure> {
    let wanted = text.to_ascii_lowercase();
    if let Some(id) = ids.iter().find(|id| **id == wanted) {
        return Ok(Some(id));
    }
    if wanted.len() < MIN_PREFIX_CHARS {
        return Ok(None);
    }
    let mut fits: Vec<&str> = ids.iter().copied().filter(|id| id.starts_with(&wanted)).collect();
    fits.sort_unstable();
    fits.dedup();
    match fits.as_slice() {
        [] => Ok(None),
        [id] => Ok(Some(*id)),
        _ => Err(Failure::usage(format!(
            "move '{}' is ambiguous: it could be {}",
            text.escape_debug(),
            fits.join(" or ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::samples::{id, status};
    use slots::admin::MoveStatus;

    fn told(version: u64, moves: &[(&str, &str, Option<u32>)]) -> Result<Moves, String> {
        let one = |(move_id, left, slots): &(&str, &str, Option<u32>)| MoveStatus {
            id: (*move_id).into(),
            to: id(2),
            to_name: "node-c".into(),
            left: (*left).into(),
            here: slots.map(|slots| MoveHere { slots, ..MoveHere::default() }),
            ..MoveStatus::default()
        };
        Ok(Moves { table_version: version, moves: moves.iter().map(one).collect() })
    }

    fn merged(heard: &[Result<Moves, String>]) -> Vec<String> {
        let heard: Vec<Heard> =
            heard.iter().enumerate().map(|(n, told)| (id(n), told.clone())).collect();
        let shown = |known: Move| {
            let here: Vec<String> =
                known.here.iter().map(|here| format!("{} {}", here.name, here.at.slots)).collect();
            format!("{}: '{}' {}", known.id, known.left, here.join(", "))
        };
        merge(&status(0).nodes, &heard).into_iter().map(shown).collect()
    }

    #[test]
    fn each_nodes_part_is_taken_and_the_newest_table_tells_what_is_left() {
        let (a, b) = (told(60, &[("m1", "5-9", Some(3))]), told(59, &[("m1", "1-9", Some(7))]));
        assert_eq!(merged(&[a, b]), ["m1: '5-9' node-a 3, node-b 7"]);
        let silent = Err("connection refused".to_owned());
        assert_eq!(merged(&[silent.clone(), told(9, &[("m2", "1", None)])]), ["m2: '1' "]);
        assert!(merged(&[silent]).is_empty());
    }

    #[test]
    fn an_old_table_neither_ends_a_move_nor_keeps_it_alive() {
        let (old, new) = (told(59, &[]), told(60, &[("m1", "5-9", None)]));
        assert_eq!(merged(&[old, new]), ["m1: '5-9' "]);
        let (old, new) = (told(59, &[("m1", "5-9", Some(1))]), told(60, &[]));
        assert_eq!(merged(&[old, new]), ["m1: '' node-a 1"]);
    }

    #[test]
    fn an_id_may_be_shortened_if_it_stays_clear() {
        let ids = ["5f1c8a2e", "5f1c0000", "77777777"];
        assert_eq!(one_of(&ids, "7777"), Ok(Some("77777777")));
        assert_eq!(one_of(&ids, "5F1C8A2E"), Ok(Some("5f1c8a2e")));
        assert_eq!(one_of(&ids, "777"), Ok(None));
        assert_eq!(one_of(&ids, "abcd"), Ok(None));
        let text = one_of(&ids, "5f1c").expect_err("two").text;
        assert_eq!(text, "move '5f1c' is ambiguous: it could be 5f1c0000 or 5f1c8a2e");
    }
}
