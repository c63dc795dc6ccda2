//! Settings, node rows and membership.

use crate::kit::{A, B, C, CLUSTER, D, NODES, STRANGER, World, move_id, new_node, ranges, slot};
use slots::ChangeRefused as R;
use slots::{
    BadText, Boot, ClusterSettings, Endpoint, Kept, MAX_LABELS, MAX_NODES, MAX_WEIGHT, NodeId,
    NodeState, Proposal, Proposer, SlotTable, StoreId, TableChange, TableVersion, TextField,
};

#[test]
fn a_cluster_is_founded_once_and_first() {
    let mut world = World { table: SlotTable::new() };
    world.refuse(A, TableChange::AddNode { node: new_node(A) }, R::NoCluster);
    let settings = ClusterSettings { default_rf: 0, ..ClusterSettings::default() };
    let change = TableChange::InitCluster { settings };
    world.refuse(A, change, R::OutOfLimits { limit: 7, got: 0 });
    let settings = ClusterSettings { default_rf: 3, ..ClusterSettings::default() };
    world.accept(A, TableChange::InitCluster { settings });
    assert_eq!(world.table.cluster().expect("founded").id, CLUSTER);
    assert_eq!(world.table.cluster().expect("founded").settings, settings);
    world.refuse(A, TableChange::InitCluster { settings }, R::ClusterExists);
}

#[test]
fn generation_and_format_never_fall() {
    let mut world = World::new();
    let now = ClusterSettings { generation: 3, format_version: 2, ..ClusterSettings::default() };
    world.accept(A, TableChange::SetCluster { settings: now });
    for settings in
        [ClusterSettings { generation: 2, ..now }, ClusterSettings { format_version: 1, ..now }]
    {
        world.refuse(A, TableChange::SetCluster { settings }, R::SettingFell);
    }
    let settings = ClusterSettings { min_in_sync: 8, ..now };
    world.refuse(A, TableChange::SetCluster { settings }, R::OutOfLimits { limit: 7, got: 8 });
    let settings = ClusterSettings { min_in_sync: 2, ..now };
    world.accept(A, TableChange::SetCluster { settings });
    assert_eq!(world.table.cluster().expect("founded").settings, settings);
}

#[test]
fn ids_stores_and_names_are_unique() {
    let mut world = World::new();
    world.refuse(A, TableChange::AddNode { node: new_node(A) }, R::IdInUse { node: A });
    let mut node = new_node(STRANGER);
    node.store = StoreId::from_bytes([0xBB; 16]);
    world.refuse(A, TableChange::AddNode { node }, R::StoreInUse { node: B });
    let mut node = new_node(STRANGER);
    node.name = "node-bb".to_owned();
    world.refuse(A, TableChange::AddNode { node }, R::NameInUse { node: B });
    let rename = |name: &str| TableChange::Rename { node: A, name: name.to_owned() };
    world.refuse(A, rename("node-bb"), R::NameInUse { node: B });
    world.accept(A, rename("node-aa"));
    world.accept(A, rename("first"));
    assert_eq!(world.table.node_named("first").expect("renamed").id, A);
    assert_eq!(world.table.node_named("node-aa"), None);
    world.accept(A, TableChange::AddNode { node: new_node(STRANGER) });
    assert_eq!(world.table.nodes().count(), 5);
    assert_eq!(world.table.node(STRANGER).expect("added").boot, Boot(0));
}

#[test]
fn nodes_come_in_order_of_id() {
    let world = World::new();
    assert_eq!(world.table.nodes().map(|row| row.id).collect::<Vec<_>>(), NODES);
}

#[test]
fn texts_and_numbers_have_limits() {
    let mut world = World::new();
    let refused = |field| R::Text(BadText { field });
    let mut node = new_node(STRANGER);
    node.name = "a b".to_owned();
    world.refuse(A, TableChange::AddNode { node }, refused(TextField::Name));
    let mut node = new_node(STRANGER);
    node.addresses.client.host = "a b".to_owned();
    world.refuse(A, TableChange::AddNode { node }, refused(TextField::Host));
    let mut node = new_node(STRANGER);
    node.labels.insert("zone".to_owned(), "a\nb".to_owned());
    world.refuse(A, TableChange::AddNode { node }, refused(TextField::LabelValue));
    let limit = u64::from(MAX_WEIGHT);
    let mut node = new_node(STRANGER);
    node.weight = MAX_WEIGHT + 1;
    let refusal = R::OutOfLimits { limit, got: limit + 1 };
    world.refuse(A, TableChange::AddNode { node }, refusal);
    world.refuse(A, TableChange::Weight { node: A, weight: MAX_WEIGHT + 1 }, refusal);
    world.accept(A, TableChange::Weight { node: A, weight: 0 });
    assert_eq!(world.table.node(A).expect("A").weight, 0);
}

#[test]
fn labels_are_set_and_taken_away() {
    let mut world = World::new();
    let label = |key: &str, value: Option<&str>| TableChange::Label {
        node: A,
        key: key.to_owned(),
        value: value.map(str::to_owned),
    };
    for n in 0..MAX_LABELS {
        world.accept(A, label(&format!("l{n}"), Some("x")));
    }
    world.refuse(A, label("more", Some("x")), R::TooManyLabels { limit: MAX_LABELS });
    world.accept(A, label("l0", Some("y")));
    assert_eq!(world.table.node(A).expect("A").labels["l0"], "y");
    world.accept(A, label("l0", None));
    world.accept(A, label("l0", None));
    world.accept(A, label("more", Some("x")));
    let bad = R::Text(BadText { field: TextField::LabelKey });
    world.refuse(A, label("", Some("x")), bad);
}

#[test]
fn addresses_change_whole() {
    let mut world = World::new();
    let mut addresses = world.table.node(A).expect("A").addresses.clone();
    addresses.client = Endpoint::new("10.9.8.7", 7777);
    addresses.hostname = Some("a.example".to_owned());
    world.accept(A, TableChange::SetAddress { node: A, addresses: addresses.clone() });
    assert_eq!(world.table.node(A).expect("A").addresses, addresses);
    addresses.hostname = Some("a b".to_owned());
    let refused = R::Text(BadText { field: TextField::Hostname });
    world.refuse(A, TableChange::SetAddress { node: A, addresses }, refused);
}

#[test]
fn a_node_in_use_is_not_removed() {
    let mut world = World::with_followers(&[B]);
    let remove = |node| TableChange::RemoveNode { node };
    world.refuse(D, remove(A), R::StillOwns { slot: slot(0) });
    world.refuse(D, remove(B), R::StillInSync { slot: slot(0) });
    world.refuse(D, remove(STRANGER), R::UnknownNode { node: STRANGER });
    let order = TableChange::BeginMove { id: move_id(1), slots: ranges("3"), to: C };
    world.accept(D, order);
    world.refuse(D, remove(C), R::StillTarget { slot: slot(3) });
}

#[test]
fn a_removed_node_is_named_nowhere_and_leaves_a_tombstone() {
    let mut world = World::with_followers(&[B, C]);
    let change = world.shrink(B);
    world.accept(A, change);
    world.check("A in-sync AC+ followers BC removed B shrunk");
    let ver = world.table.slot(slot(0)).ver();
    world.accept(D, TableChange::RemoveNode { node: B });
    world.check("A in-sync AC followers C");
    assert_eq!(world.table.slot(slot(0)).ver(), ver);
    assert_eq!(world.table.node(B).expect("a tombstone").state, NodeState::Removed);
    assert_eq!(world.table.nodes().count(), 3);
    assert_eq!(world.table.tombstones().count(), 1);

    world.accept(D, TableChange::RemoveNode { node: B });
    let gone = R::NodeRemoved { node: B };
    world.refuse(D, TableChange::Undrain { node: B }, gone);
    world.refuse(D, TableChange::BeginMove { id: move_id(1), slots: ranges("0"), to: B }, gone);
    world.refuse(D, TableChange::AddNode { node: new_node(B) }, R::IdInUse { node: B });
    let mut same_disk = new_node(STRANGER);
    same_disk.store = StoreId::from_bytes([0xBB; 16]);
    world.refuse(D, TableChange::AddNode { node: same_disk }, R::StoreInUse { node: B });
    let boot = crate::kit::boot_proposal(world.boot(B, Kept::All));
    world.refuse_proposal(&boot, gone);
    // A Shrink of the tombstone withdraws what may still be proposed for it.
    let change = world.shrink(B);
    world.accept(A, change);
}

#[test]
fn a_dropped_tombstone_frees_id_and_place() {
    let mut world = World::sole();
    let drop = |node| TableChange::DropTombstone { node };
    world.refuse(D, drop(C), R::NotRemoved { node: C });
    world.accept(D, TableChange::RemoveNode { node: C });
    world.accept(D, drop(C));
    world.refuse(D, drop(C), R::UnknownNode { node: C });
    assert_eq!(world.table.node(C), None);
    // C stood at the first place: whoever comes there must not be taken for C.
    world.accept(D, TableChange::AddNode { node: new_node(STRANGER) });
    world.accept(D, TableChange::AddNode { node: new_node(C) });
    world.accept_boot(world.boot(STRANGER, Kept::Nothing));
    let change = world.grow(STRANGER);
    world.accept(A, change);
    world.check("A in-sync AE+ followers -");
}

#[test]
fn draining_nodes_keep_what_they_have() {
    let mut world = World::with_followers(&[B]);
    world.accept(D, TableChange::Drain { node: B });
    world.accept(D, TableChange::Drain { node: B });
    let change = world.promote(B);
    world.accept(D, change);
    world.check("B* in-sync AB+ followers A");
    world.accept(D, TableChange::Undrain { node: B });
    assert_eq!(world.table.node(B).expect("B").state, NodeState::Active);
}

#[test]
fn the_table_has_room_for_so_many_nodes() {
    let mut table = SlotTable::new();
    let by = Proposer { node: A, boot: Boot(0) };
    let mut apply = |change| {
        let version = table.version().next();
        table.apply(&Proposal { cluster: CLUSTER, by, change }, version).all()
    };
    let settings = ClusterSettings::default();
    assert_eq!(apply(TableChange::InitCluster { settings }), Ok(()));
    for n in 0..=MAX_NODES {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&(n as u64).to_be_bytes());
        let mut node = new_node(NodeId::from_bytes(bytes));
        node.name = format!("n{n}");
        node.store = StoreId::from_bytes((n as u128).to_be_bytes());
        let expected =
            if n < MAX_NODES { Ok(()) } else { Err(R::TooManyNodes { limit: MAX_NODES }) };
        assert_eq!(apply(TableChange::AddNode { node }), expected);
    }
    assert_eq!(table.version(), TableVersion(MAX_NODES as u64 + 2));
}
