//! Which node a key's command goes to, and what a redirect changes about that.
//!
//! Pure: a map made of decoded replies. Not the asking for them, nor the sending.
//!
//! Invariant: only `MOVED` and a whole new map change who owns a slot; `ASK` never does (D47).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use slots::{Endpoint, Redirect, RedirectHost, RedirectKind, SLOTS, SlotId, SlotRange, slot_of};

/// One row of CLUSTER SLOTS: a range and the first node named for it, its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served<'a> {
    /// The slots.
    pub range: SlotRange,
    /// The owner's host as it was sent: null, empty, `?` or a name.
    pub host: Option<&'a str>,
    /// The owner's port; 0 is no port.
    pub port: u16,
}

/// What to do with a command that was redirected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Send it there.
    Send(Arc<Endpoint>),
    /// Send `ASKING` and it there, one behind the other on one connection. If `ASKING` fails the
    /// command has failed and is not sent. A transaction takes one `ASKING`, before its `MULTI`.
    Ask(Arc<Endpoint>),
    /// The server does not know where: fetch the map from another node, then look up again.
    Refresh,
}

/// The owner of each slot, as far as it is known. At most 16,384 endpoints, whatever is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotMap {
    owners: Box<[Option<Arc<Endpoint>>]>,
}

impl Default for SlotMap {
    /// Nothing is known.
    fn default() -> SlotMap {
        SlotMap { owners: vec![None; SLOTS].into_boxed_slice() }
    }
}

impl SlotMap {
    /// The map that the node at `asked` answered with. A null or empty host stands for the one
    /// the client reached the node at; slots of a `?` host, and those in no row, have no known
    /// owner. If rows overlap, the later one counts.
    pub fn from_rows<'a>(asked: &Endpoint, rows: impl IntoIterator<Item = Served<'a>>) -> SlotMap {
        let mut map = SlotMap::default();
        let mut seen: HashMap<Endpoint, Arc<Endpoint>> = HashMap::new();
        for row in rows {
            let owner = resolve(host(row.host), row.port, asked).map(|endpoint| {
                seen.entry(endpoint).or_insert_with_key(|new| Arc::new(new.clone())).clone()
            });
            map.owners[row.range.first().index()..=row.range.last().index()].fill(owner);
        }
        map
    }

    /// Where a command for `key` goes: by its hash tag, or all of it. `None` = not known; fetch
    /// the map.
    pub fn lookup(&self, key: &[u8]) -> Option<&Arc<Endpoint>> {
        self.owner(slot_of(key))
    }

    /// A slot's owner, if it is known.
    pub fn owner(&self, slot: SlotId) -> Option<&Arc<Endpoint>> {
        self.owners[slot.index()].as_ref()
    }

    /// All owners, each once, in order of host and port.
    pub fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        let all: BTreeSet<&Arc<Endpoint>> = self.owners.iter().flatten().collect();
        all.into_iter().cloned().collect()
    }

    /// Takes in a redirect that the node at `asked` answered with. `MOVED` changes the owner of
    /// its one slot, to "not known" if it names `?`; `ASK` changes nothing.
    pub fn apply(&mut self, redirect: &Redirect<'_>, asked: &Endpoint) -> Next {
        let there = resolve(redirect.host, redirect.port, asked).map(Arc::new);
        if redirect.kind == RedirectKind::Moved {
            self.owners[redirect.slot.index()].clone_from(&there);
        }
        match (there, redirect.kind) {
            (None, _) => Next::Refresh,
            (Some(there), RedirectKind::Moved) => Next::Send(there),
            (Some(there), RedirectKind::Ask) => Next::Ask(there),
        }
    }
}

/// A host of CLUSTER SLOTS as a redirect would name it.
fn host(sent: Option<&str>) -> RedirectHost<'_> {
    match sent {
        None | Some("") => RedirectHost::Same,
        Some("?") => RedirectHost::Unknown,
        Some(name) => RedirectHost::Named(name),
    }
}

fn resolve(host: RedirectHost<'_>, port: u16, asked: &Endpoint) -> Option<Endpoint> {
    let host = match host {
        RedirectHost::Named(host) => host,
        RedirectHost::Same => &asked.host,
        RedirectHost::Unknown => return None,
    };
    (port != 0).then(|| Endpoint::new(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Endpoint {
        Endpoint::new("10.0.0.1", 7001)
    }

    fn row(range: &str, host: Option<&'static str>, port: u16) -> Served<'static> {
        Served { range: range.parse().expect("a range"), host, port }
    }

    fn three() -> SlotMap {
        SlotMap::from_rows(
            &asked(),
            [
                row("0-5460", Some("10.0.0.1"), 7001),
                row("5461-10922", Some("10.0.0.2"), 7002),
                row("10923-16383", Some("10.0.0.3"), 7003),
            ],
        )
    }

    /// The owner of a key, as text.
    fn owner(map: &SlotMap, key: &str) -> Option<String> {
        map.lookup(key.as_bytes()).map(|endpoint| endpoint.to_string())
    }

    fn redirect(text: &str) -> Redirect<'_> {
        Redirect::parse(text).expect("a redirect")
    }

    fn to(host: &str, port: u16) -> Arc<Endpoint> {
        Arc::new(Endpoint::new(host, port))
    }

    #[test]
    fn keys_go_to_the_owner_of_their_slot_and_tags_decide() {
        let map = three();
        assert_eq!(owner(&map, "foo").as_deref(), Some("10.0.0.3:7003"));
        assert_eq!(owner(&map, "x{foo}y"), owner(&map, "foo"));
        assert_eq!(owner(&map, "").as_deref(), Some("10.0.0.1:7001"));
        assert_eq!(map.endpoints().len(), 3);
    }

    #[test]
    fn a_null_or_empty_host_is_the_one_that_was_asked() {
        for host in [None, Some("")] {
            let map = SlotMap::from_rows(&asked(), [row("0-16383", host, 7777)]);
            assert_eq!(owner(&map, "foo").as_deref(), Some("10.0.0.1:7777"), "{host:?}");
        }
    }

    #[test]
    fn a_host_that_is_not_known_is_never_connected_to() {
        let rows = [row("0-5460", Some("?"), 7001), row("5461-16383", Some("10.0.0.2"), 7002)];
        let map = SlotMap::from_rows(&asked(), rows);
        assert_eq!(owner(&map, ""), None);
        assert_eq!(owner(&map, "foo").as_deref(), Some("10.0.0.2:7002"));
        assert_eq!(map.endpoints(), [to("10.0.0.2", 7002)]);
    }

    #[test]
    fn slots_in_no_row_and_ports_that_are_none_have_no_owner() {
        let map = SlotMap::from_rows(&asked(), [row("0-100", Some("10.0.0.1"), 0)]);
        assert!(SlotId::all().all(|slot| map.owner(slot).is_none()));
    }

    #[test]
    fn the_later_of_two_rows_for_a_slot_counts() {
        let rows = [row("0-16383", Some("a"), 1), row("12182", Some("b"), 2)];
        let map = SlotMap::from_rows(&asked(), rows);
        assert_eq!(owner(&map, "foo").as_deref(), Some("b:2"));
        assert_eq!(owner(&map, "bar").as_deref(), Some("a:1"));
    }

    #[test]
    fn moved_corrects_its_slot_and_no_other() {
        let mut map = three();
        let next = map.apply(&redirect("MOVED 12182 10.0.0.2:7002"), &asked());
        assert_eq!(next, Next::Send(to("10.0.0.2", 7002)));
        assert_eq!(owner(&map, "foo").as_deref(), Some("10.0.0.2:7002"));
        let others = SlotId::all().filter(|slot| slot.number() != 12_182);
        let before = three();
        assert!(others.into_iter().all(|slot| map.owner(slot) == before.owner(slot)));
    }

    #[test]
    fn moved_without_a_host_means_the_node_that_said_it_with_that_port() {
        let mut map = three();
        let next = map.apply(&redirect("MOVED 12182 :7777"), &Endpoint::new("10.0.0.9", 7009));
        assert_eq!(next, Next::Send(to("10.0.0.9", 7777)));
        assert_eq!(owner(&map, "foo").as_deref(), Some("10.0.0.9:7777"));
    }

    #[test]
    fn moved_to_an_unknown_host_makes_the_slot_unknown() {
        let mut map = three();
        assert_eq!(map.apply(&redirect("MOVED 12182 ?:7777"), &asked()), Next::Refresh);
        assert_eq!(owner(&map, "foo"), None);
    }

    #[test]
    fn ask_is_followed_once_and_the_map_stays() {
        let mut map = three();
        for _ in 0..3 {
            let next = map.apply(&redirect("ASK 12182 10.0.0.2:7002"), &asked());
            assert_eq!(next, Next::Ask(to("10.0.0.2", 7002)));
            assert_eq!(map, three());
        }
        assert_eq!(map.apply(&redirect("ASK 12182 ?:7002"), &asked()), Next::Refresh);
        assert_eq!(map, three());
    }
}
