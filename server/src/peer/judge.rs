//! Whether a node that greets is let in: one pure function.
//!
//! Not the greeting's order (`link`), and not which of two links stays (`roll`). What only a newer
//! table can tell is not judged: a node whose table is newer than ours may be a member that we
//! have not heard of, and may be the only one that can bring us up to date.

use slots::{Boot, ClusterId, NodeState, Nonce, SlotTable, StoreId};

use super::greeting::{Hello, Versions};
use super::identity::Identity;
use super::refusal::{Refusal, SecretFault};

/// What the table says of a node that greets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownRow {
    /// Its name.
    pub name: String,
    /// Its data directory.
    pub store: StoreId,
    /// Its last recorded start.
    pub boot: Boot,
    /// That start's mark.
    pub nonce: Option<Nonce>,
    /// Is the row a tombstone?
    pub is_removed: bool,
}

impl KnownRow {
    /// The table's row of a node.
    pub fn of(table: &SlotTable, node: slots::NodeId) -> Option<KnownRow> {
        table.node(node).map(|row| KnownRow {
            name: row.name.clone(),
            store: row.store,
            boot: row.boot,
            nonce: row.nonce,
            is_removed: row.state == NodeState::Removed,
        })
    }
}

/// What a greeting is held against.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bench {
    /// Who we are.
    pub me: Identity,
    /// Our cluster.
    pub cluster: Option<ClusterId>,
    /// Its generation.
    pub generation: u64,
    /// Our table's version.
    pub table_version: u64,
    /// Our table's row of the node that greets.
    pub row: Option<KnownRow>,
    /// The newest start of that node that was let in before.
    pub greeted: Option<Identity>,
    /// Did the dialer, whichever of us, ask for a stranger's link?
    pub as_stranger: bool,
}

/// What a node that was let in is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// A member of our cluster: all calls.
    Member,
    /// A stranger: `CallKind::Meet` only.
    Stranger,
}

/// What can be judged of a Hello before the secret is proven. Refusals, in this order:
/// - `Version`: no version in common;
/// - `Secret`: one side has a secret and the other has none.
pub fn judge_terms(theirs: &Hello, ours: Versions, we_have_secret: bool) -> Result<u16, Refusal> {
    let version = theirs.versions.common(ours);
    let version = version.ok_or(Refusal::Version { ours, theirs: theirs.versions })?;
    match (we_have_secret, theirs.has_secret) {
        (true, false) => Err(Refusal::Secret(SecretFault::Missing)),
        (false, true) => Err(Refusal::Secret(SecretFault::Unexpected)),
        _ => Ok(version),
    }
}

/// Judges a node whose secret, if there is one, is proven. Refusals, in this order:
/// - `Myself`, `IdInUse`, `Outdated`, `Superseded`, `Doubled`: it has our own id;
/// - `OtherCluster`, unless the dialer asked for a stranger's link;
/// - `OldGeneration`, `NewGeneration`;
/// - `NotYet`, `Unknown`: the table has no such node, and its table is not newer than ours;
/// - `Removed`, `OtherStore`: by the table's row, if its table is not newer than ours;
/// - `Outdated`, `Doubled`: its start against the row's and against the newest that greeted.
pub fn judge(theirs: &Hello, bench: &Bench) -> Result<Standing, Refusal> {
    let it = &theirs.identity;
    if it.node == bench.me.node {
        return Err(own_id(theirs, &bench.me));
    }
    if bench.as_stranger {
        return Ok(Standing::Stranger);
    }
    if bench.cluster.is_none() || theirs.cluster != bench.cluster {
        return Err(Refusal::OtherCluster { ours: bench.cluster, theirs: theirs.cluster });
    }
    let (ours, its) = (bench.generation, theirs.generation);
    if its < ours {
        return Err(Refusal::OldGeneration { ours, theirs: its });
    }
    if its > ours {
        // Only a member can have begun it.
        by_row(theirs, bench.row.as_ref(), false)?;
        return Err(Refusal::NewGeneration { ours, theirs: its });
    }
    let is_ahead = theirs.table_version > bench.table_version || bench.table_version == 0;
    let known = by_row(theirs, bench.row.as_ref(), is_ahead)?;
    let recorded = known.map(|row| (row.boot, row.nonce));
    let greeted = bench.greeted.filter(|greeted| greeted.store == it.store);
    let greeted = greeted.map(|greeted| (greeted.boot, Some(greeted.nonce)));
    let name = || bench.row.as_ref().map_or(&theirs.name, |row| &row.name).clone();
    for (boot, nonce) in [recorded, greeted].into_iter().flatten() {
        if it.boot < boot {
            return Err(Refusal::Outdated { name: name(), recorded: boot, got: it.boot });
        }
        if let Some(nonce) = nonce.filter(|nonce| it.boot == boot && *nonce != it.nonce) {
            return Err(Refusal::Doubled { name: name(), boot, nonce });
        }
    }
    Ok(Standing::Member)
}

/// What a node is told that has our own id.
fn own_id(theirs: &Hello, me: &Identity) -> Refusal {
    let it = &theirs.identity;
    let name = theirs.name.clone();
    match () {
        () if it == me => Refusal::Myself,
        () if it.store != me.store => Refusal::IdInUse { node: me.node },
        () if it.boot < me.boot => Refusal::Outdated { name, recorded: me.boot, got: it.boot },
        () if it.boot > me.boot => Refusal::Superseded { name, ours: me.boot, theirs: it.boot },
        () => Refusal::Doubled { name, boot: me.boot, nonce: me.nonce },
    }
}

/// The row that the node's start is held against, if the table can say anything of the node.
fn by_row<'a>(
    theirs: &Hello,
    row: Option<&'a KnownRow>,
    is_ahead: bool,
) -> Result<Option<&'a KnownRow>, Refusal> {
    let it = &theirs.identity;
    let Some(row) = row else {
        // A node without any table was added a moment ago, or wiped: the table will tell.
        return match is_ahead {
            true => Ok(None),
            false if theirs.table_version == 0 => Err(Refusal::NotYet { node: it.node }),
            false => Err(Refusal::Unknown { node: it.node }),
        };
    };
    let name = row.name.clone();
    match () {
        () if row.is_removed && is_ahead => Ok(None),
        () if row.is_removed => Err(Refusal::Removed { name }),
        () if row.store != it.store && is_ahead => Ok(None),
        () if row.store != it.store => {
            Err(Refusal::OtherStore { name, recorded: row.store, got: it.store })
        }
        () => Ok(Some(row)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::greeting::PROTOCOL_VERSIONS;
    use crate::peer::greeting::tests::hello;
    use crate::peer::refusal::RefusalCode;
    use slots::NodeId;

    /// Node 1 looks at node 2, which is in its table as it greets.
    fn bench() -> Bench {
        let it = hello(2).identity;
        Bench {
            me: hello(1).identity,
            cluster: hello(1).cluster,
            generation: 1,
            table_version: 10,
            row: Some(KnownRow {
                name: "node-2".to_owned(),
                store: it.store,
                boot: it.boot,
                nonce: Some(it.nonce),
                is_removed: false,
            }),
            greeted: None,
            as_stranger: false,
        }
    }

    fn check(change: impl FnOnce(&mut Hello, &mut Bench), expected: Result<Standing, RefusalCode>) {
        let (mut theirs, mut bench) = (hello(2), bench());
        change(&mut theirs, &mut bench);
        let got = judge(&theirs, &bench);
        assert_eq!(got.clone().map_err(|refusal| refusal.code()), expected, "{got:?}");
    }

    fn row(bench: &mut Bench) -> &mut KnownRow {
        bench.row.as_mut().expect("a row")
    }

    const OTHER: [u8; 8] = [99; 8];

    #[test]
    fn a_member_is_let_in() {
        check(|_, _| {}, Ok(Standing::Member));
        check(|_, b| row(b).nonce = None, Ok(Standing::Member));
        check(|h, _| h.identity.boot = Boot(4), Ok(Standing::Member));
    }

    #[test]
    fn its_own_id_at_the_other_end() {
        let like_me = |h: &mut Hello| h.identity = hello(1).identity;
        check(|h, _| like_me(h), Err(RefusalCode::Myself));
        let other_store = |h: &mut Hello, _: &mut Bench| {
            like_me(h);
            h.identity.store = StoreId::from_bytes([9; 16]);
        };
        check(other_store, Err(RefusalCode::IdInUse));
        let copy = |h: &mut Hello, boot| {
            like_me(h);
            h.identity.nonce = Nonce::from_bytes(OTHER);
            h.identity.boot = Boot(boot);
        };
        check(|h, _| copy(h, 3), Err(RefusalCode::Doubled));
        check(|h, _| copy(h, 2), Err(RefusalCode::Outdated));
        check(|h, _| copy(h, 4), Err(RefusalCode::Superseded));
        let stranger = |h: &mut Hello, b: &mut Bench| {
            like_me(h);
            b.as_stranger = true;
        };
        check(stranger, Err(RefusalCode::Myself));
    }

    #[test]
    fn other_clusters_are_let_in_as_strangers_only() {
        let other = Some(ClusterId::from_bytes([8; 20]));
        check(|h, _| h.cluster = other, Err(RefusalCode::OtherCluster));
        check(|h, _| h.cluster = None, Err(RefusalCode::OtherCluster));
        check(|_, b| b.cluster = None, Err(RefusalCode::OtherCluster));
        let neither = |h: &mut Hello, b: &mut Bench| {
            h.cluster = None;
            b.cluster = None;
        };
        check(neither, Err(RefusalCode::OtherCluster));
        let asked = |h: &mut Hello, b: &mut Bench| {
            h.cluster = other;
            b.as_stranger = true;
        };
        check(asked, Ok(Standing::Stranger));
    }

    #[test]
    fn other_generations_are_refused_both_ways() {
        check(|h, _| h.generation = 0, Err(RefusalCode::OldGeneration));
        check(|h, _| h.generation = 2, Err(RefusalCode::NewGeneration));
        let refusal = Refusal::OldGeneration { ours: 2, theirs: 1 }.to_string();
        assert!(refusal.starts_with("this cluster was recovered at generation 2"), "{refusal}");
    }

    #[test]
    fn a_node_without_a_row() {
        check(|_, b| b.row = None, Err(RefusalCode::Unknown));
        let behind = |h: &mut Hello, b: &mut Bench| {
            h.table_version = 9;
            b.row = None;
        };
        check(behind, Err(RefusalCode::Unknown));
        let just_added = |h: &mut Hello, b: &mut Bench| {
            h.table_version = 0;
            b.row = None;
        };
        check(just_added, Err(RefusalCode::NotYet));
        let ahead = |h: &mut Hello, b: &mut Bench| {
            h.table_version = 11;
            b.row = None;
        };
        check(ahead, Ok(Standing::Member));
        let we_just_joined = |h: &mut Hello, b: &mut Bench| {
            h.table_version = 0;
            b.table_version = 0;
            b.row = None;
        };
        check(we_just_joined, Ok(Standing::Member));
    }

    #[test]
    fn a_removed_node_is_refused_unless_its_table_is_newer() {
        check(|_, b| row(b).is_removed = true, Err(RefusalCode::Removed));
        let back_again = |h: &mut Hello, b: &mut Bench| {
            h.table_version = 11;
            row(b).is_removed = true;
        };
        check(back_again, Ok(Standing::Member));
    }

    #[test]
    fn another_data_directory_under_a_known_id() {
        let wiped = |h: &mut Hello, _: &mut Bench| {
            h.identity.store = StoreId::from_bytes([7; 16]);
            h.table_version = 0;
        };
        check(wiped, Err(RefusalCode::OtherStore));
        let added_again = |h: &mut Hello, b: &mut Bench| {
            h.identity.store = StoreId::from_bytes([7; 16]);
            h.identity.boot = Boot(1);
            h.table_version = 11;
            b.greeted = Some(hello(2).identity);
        };
        check(added_again, Ok(Standing::Member));
    }

    #[test]
    fn an_older_copy_of_a_data_directory() {
        check(|h, _| h.identity.boot = Boot(2), Err(RefusalCode::Outdated));
        let older_than_greeted = |_: &mut Hello, b: &mut Bench| {
            let newer = Identity { boot: Boot(4), ..hello(2).identity };
            b.greeted = Some(newer);
        };
        check(older_than_greeted, Err(RefusalCode::Outdated));
        // A newer table is no excuse: starts only grow.
        let ahead = |h: &mut Hello, _: &mut Bench| {
            h.identity.boot = Boot(2);
            h.table_version = 11;
        };
        check(ahead, Err(RefusalCode::Outdated));
    }

    #[test]
    fn two_copies_of_one_data_directory() {
        check(|h, _| h.identity.nonce = Nonce::from_bytes(OTHER), Err(RefusalCode::Doubled));
        let both_new = |h: &mut Hello, b: &mut Bench| {
            h.identity.boot = Boot(4);
            b.greeted = Some(Identity { nonce: Nonce::from_bytes(OTHER), ..h.identity });
        };
        check(both_new, Err(RefusalCode::Doubled));
    }

    #[test]
    fn terms_come_before_everything_else() {
        let mut theirs = hello(2);
        assert_eq!(judge_terms(&theirs, PROTOCOL_VERSIONS, false), Ok(1));
        let code = |theirs: &Hello, secret| {
            judge_terms(theirs, Versions { min: 1, max: 2 }, secret).map_err(|r| r.code())
        };
        assert_eq!(code(&theirs, true), Err(RefusalCode::Secret));
        theirs.has_secret = true;
        assert_eq!(code(&theirs, false), Err(RefusalCode::Secret));
        assert_eq!(code(&theirs, true), Ok(1));
        theirs.versions = Versions { min: 3, max: 4 };
        assert_eq!(code(&theirs, false), Err(RefusalCode::Version));
        let text = judge_terms(&theirs, Versions { min: 1, max: 2 }, true).expect_err("too new");
        assert!(text.to_string().contains("versions 1-2") && text.to_string().contains("3-4"));
    }

    #[test]
    fn the_row_is_the_tables() {
        assert_eq!(KnownRow::of(&SlotTable::new(), NodeId::from_bytes([1; 20])), None);
    }
}
