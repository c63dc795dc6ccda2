//! Round trips, golden bytes and broken bytes of ops, values and groups.

use proptest::prelude::*;

use super::*;
use crate::store::blob::Blob;
use crate::store::hash::Hash;
use crate::store::limits::Limits;
use crate::store::list::List;
use crate::store::set::Set;
use crate::store::zset::SortedSet;
use crate::stream::tests::elements;

/// Small limits, so that a few elements reach the large forms.
fn small() -> Limits {
    Limits {
        hash_max_entries: 6,
        hash_max_value: 20,
        set_max_intset: 6,
        set_max_listpack_entries: 6,
        set_max_listpack_value: 20,
        zset_max_entries: 6,
        zset_max_value: 20,
        list_max_listpack_size: 3,
    }
}

/// The parts an op of any kind is made of.
#[derive(Clone, Debug)]
struct Parts {
    kind: u8,
    keys: (Vec<u8>, Vec<u8>),
    words: Vec<Vec<u8>>,
    numbers: (usize, usize),
    scores: Vec<f64>,
    expiry: Expiry,
    object: Object,
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..12),
        4 => (-300i64..300).prop_map(|i| i.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 120..140),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        any::<f64>().prop_map(|s| if s.is_nan() { 1.0 } else { s }),
    ]
}

fn expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![Just(Expiry::Keep), Just(Expiry::Never), any::<u64>().prop_map(Expiry::At)]
}

fn object() -> impl Strategy<Value = Object> {
    let words = prop::collection::vec((text(), text(), score()), 0..14);
    let ints = prop::collection::vec(-40i64..40, 0..10);
    (0u8..6, words, ints, 0usize..200_000).prop_map(|(kind, words, ints, size)| match kind {
        0 => Object::Blob(Blob::from_slice(&vec![b'x'; size])),
        1 => {
            let mut list = List::new();
            words.iter().for_each(|(word, ..)| list.push_back(word, &small()));
            Object::List(list)
        }
        2 => {
            let mut hash = Hash::new();
            words.iter().for_each(|(field, value, _)| {
                hash.set(field, value, &small());
            });
            Object::Hash(hash)
        }
        3 => {
            let mut zset = SortedSet::new();
            words.iter().for_each(|(member, _, score)| {
                zset.add(member, *score, &small());
            });
            Object::SortedSet(zset)
        }
        4 => {
            let mut set = Set::new();
            words.iter().for_each(|(member, ..)| {
                set.add(member, &small());
            });
            Object::Set(set)
        }
        _ => {
            let mut set = Set::new();
            ints.iter().for_each(|int| {
                set.add(int.to_string().as_bytes(), &small());
            });
            Object::Set(set)
        }
    })
}

fn parts() -> impl Strategy<Value = Parts> {
    let number = prop_oneof![0usize..5, 0usize..100_000, Just(usize::MAX)];
    (
        1u8..=kind::FLUSH,
        (text(), text()),
        prop::collection::vec(text(), 0..6),
        (number.clone(), number),
        prop::collection::vec(score(), 6),
        expiry(),
        object(),
    )
        .prop_map(|(kind, keys, words, numbers, scores, expiry, object)| Parts {
            kind,
            keys,
            words,
            numbers,
            scores,
            expiry,
            object,
        })
}

impl Parts {
    /// Builds the op and calls `use_op` with it.
    fn with<R>(&self, use_op: impl FnOnce(Op<'_>) -> R) -> R {
        let words: Vec<&[u8]> = self.words.iter().map(Vec::as_slice).collect();
        let even = &words[..words.len() / 2 * 2];
        let items: Vec<(f64, &[u8])> = self.scores.iter().copied().zip(words.clone()).collect();
        let word = words.first().copied().unwrap_or_default();
        let (key, to) = (Key::new(&self.keys.0), Key::new(&self.keys.1));
        let (index, count) = self.numbers;
        let end = if count % 2 == 0 { End::Front } else { End::Back };
        let at = if let Expiry::At(at) = self.expiry { Some(at) } else { None };
        let object = || Box::new(self.object.clone());
        let (expiry, offset) = (self.expiry, index.min(1 << 20));
        use_op(match self.kind {
            kind::SET_STRING => Op::SetString { key, value: word, expiry },
            kind::SET_RANGE => Op::SetRange { key, offset, bytes: word },
            kind::PUT_OBJECT => Op::PutObject { key, object: object(), expiry },
            kind::DELETE => Op::Delete { key },
            kind::EXPIRE => Op::Expire { key },
            kind::SET_EXPIRY => Op::SetExpiry { key, at },
            kind::RENAME => Op::Rename { from: key, to },
            kind::HASH_SET => Op::HashSet { key, pairs: even },
            kind::HASH_DELETE => Op::HashDelete { key, fields: &words },
            kind::LIST_PUSH => Op::ListPush { key, end, items: &words },
            kind::LIST_POP => Op::ListPop { key, end, count },
            kind::LIST_SET => Op::ListSet { key, index, value: word },
            kind::LIST_INSERT => Op::ListInsert { key, index, value: word },
            kind::LIST_REMOVE => Op::ListRemove { key, start: index, count },
            kind::LIST_REMOVE_EQUAL => Op::ListRemoveEqual { key, from: end, value: word, count },
            kind::SET_ADD => Op::SetAdd { key, members: &words },
            kind::SET_REMOVE => Op::SetRemove { key, members: &words },
            kind::ZSET_ADD => Op::ZsetAdd { key, items: &items },
            kind::ZSET_REMOVE => Op::ZsetRemove { key, members: &words },
            kind::ZSET_REMOVE_RANKS => Op::ZsetRemoveRanks { key, start: index, count },
            _ => Op::Flush,
        })
    }
}

/// An op in words, an object by what it is made of.
fn shown(op: &Op<'_>) -> String {
    let Op::PutObject { key, object, expiry } = op else { return format!("{op:?}") };
    let (encoding, elements) = (object.encoding().as_str(), elements(object));
    format!("put {key:?} {expiry:?} {} {encoding} {elements:?}", object.type_name())
}

fn group_of(all: &[Parts]) -> Vec<u8> {
    let mut group = Vec::new();
    all.iter().for_each(|parts| parts.with(|op| put_op(&op, &mut group)));
    group
}

fn read_all(group: &[u8]) -> Result<Vec<String>, Broken> {
    let mut ops = Ops::open(group, Scratch::default())?;
    let mut all = Vec::new();
    while let Some(op) = ops.next()? {
        all.push(shown(&op));
    }
    Ok(all)
}

proptest! {
    #[test]
    fn ops_come_back(all in prop::collection::vec(parts(), 1..6)) {
        let group = group_of(&all);
        let want: Vec<String> = all.iter().map(|parts| parts.with(|op| shown(&op))).collect();
        prop_assert_eq!(read_all(&group), Ok(want));
        // The same value has the same bytes, unless it is a table, whose order is its own.
        let mut again = Vec::new();
        let mut ops = Ops::open(&group, Scratch::default()).expect("as above");
        while let Some(op) = ops.next().expect("as above") {
            put_op(&op, &mut again);
        }
        prop_assert_eq!(again.len(), group.len());
    }

    #[test]
    fn a_group_cut_short_is_broken_or_ends_between_ops(
        all in prop::collection::vec(parts(), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let group = group_of(&all);
        let cut = cut.index(group.len());
        if let Ok(some) = read_all(&group[..cut]) {
            prop_assert!(some.len() < all.len());
        }
    }

    #[test]
    fn mutated_groups_do_no_harm(
        all in prop::collection::vec(parts(), 1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut group = group_of(&all);
        for (at, byte) in changes {
            let at = at.index(group.len());
            group[at] = byte;
        }
        if let Err(broken) = read_all(&group) {
            prop_assert!(broken.at <= group.len());
        }
    }

    #[test]
    fn random_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_all(&bytes);
        bytes.insert(0, GROUP_VERSION);
        let _ = read_all(&bytes);
    }
}

#[test]
fn announced_lengths_allocate_nothing() {
    // Each announces 2^40 of something and has none of it.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x20];
    for head in [
        &[kind::SET_STRING, 0, EXPIRY_NEVER][..],
        &[kind::HASH_SET, 0],
        &[kind::ZSET_ADD, 0],
        &[kind::LIST_PUSH, 0, 0],
        &[kind::PUT_OBJECT, 0, EXPIRY_NEVER, 3],
        &[kind::PUT_OBJECT, 0, EXPIRY_NEVER, 4, 0],
        &[kind::PUT_OBJECT, 0, EXPIRY_NEVER, 7],
        &[kind::SET_RANGE, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ] {
        let group = [&[GROUP_VERSION], head, &huge[..]].concat();
        assert!(read_all(&group).is_err(), "{head:?}");
    }
}

#[test]
fn scratch_memory_is_used_again() {
    let group = group_of(&[fixed(kind::SET_ADD)]);
    let mut ops = Ops::open(&group, Scratch::default()).expect("a group");
    assert!(matches!(ops.next(), Ok(Some(Op::SetAdd { .. }))));
    let scratch = ops.close();
    let before = (scratch.words.as_ptr(), scratch.words.capacity());
    let scratch = Ops::open(&group, scratch).expect("a group").close();
    assert_eq!((scratch.words.as_ptr(), scratch.words.capacity()), before);
}

/// The same op of a kind for ever.
fn fixed(kind: u8) -> Parts {
    Parts {
        kind,
        keys: (b"{k}1".to_vec(), b"{k}2".to_vec()),
        words: [&b"a"[..], b"12", b"", &[0xff; 130]].map(<[u8]>::to_vec).to_vec(),
        numbers: (300, 3),
        scores: vec![1.5, -0.0, f64::INFINITY, -2.0],
        expiry: Expiry::At(1_700_000_000_123),
        object: Object::Blob(Blob::from_slice(b"big")),
    }
}

/// One value of each form; a table with more than one element has an order of its own.
fn fixed_objects() -> Vec<Object> {
    let (packed, table) = (Limits::default(), Limits { hash_max_value: 0, ..small() });
    let table = Limits { set_max_listpack_value: 0, zset_max_entries: 0, ..table };
    let mut list = List::new();
    [&b"one"[..], b"", b"3"].iter().for_each(|item| list.push_back(item, &small()));
    let mut objects = vec![Object::Blob(Blob::from_slice(b"big")), Object::List(list)];
    for limits in [packed, table] {
        let (mut hash, mut set, mut zset) = (Hash::new(), Set::new(), SortedSet::new());
        hash.set(b"field", b"value", &limits);
        set.add(b"member", &limits);
        zset.add(b"member", 2.5, &limits);
        zset.add(b"other", 3.0, &limits);
        objects.extend([Object::Hash(hash), Object::Set(set), Object::SortedSet(zset)]);
    }
    let mut ints = Set::new();
    [-5, 0, 1 << 40].iter().for_each(|i: &i64| {
        ints.add(i.to_string().as_bytes(), &packed);
    });
    objects.push(Object::Set(ints));
    objects
}

#[test]
fn bytes_are_as_they_were() {
    let mut lines = String::new();
    let mut say = |name: String, bytes: &[u8]| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push_str(&format!("{name}: {}\n", hex.join(" ")));
    };
    for kind in 1..=kind::FLUSH {
        let parts = fixed(kind);
        let name = parts.with(|op| format!("{op:?}"));
        let name = name.split([' ', '{']).next().unwrap_or_default().to_owned();
        say(name, &group_of(&[parts]));
    }
    for object in fixed_objects() {
        let mut bytes = Vec::new();
        put_object(&mut bytes, &object);
        say(format!("{} {}", object.type_name(), object.encoding().as_str()), &bytes);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stream/golden/ops.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &lines).expect("the file can be written");
    }
    let golden = std::fs::read_to_string(path).expect("the file is there");
    assert_eq!(lines, golden, "a format changed: that needs a new version");
}

/// What the hot path pays: printed by `-- --nocapture`, in release builds worth reading.
#[test]
fn a_set_costs_a_few_nanoseconds() {
    const GROUPS: u32 = 1_000_000;
    let (key, value) = (Key::new(b"key:{tag}:000000000042"), [b'v'; 80]);
    let mut group = Vec::with_capacity(4096);
    let begin_ns = crate::io::clock::now().mono_ns;
    for _ in 0..GROUPS {
        group.clear();
        let op = std::hint::black_box(Op::SetString { key, value: &value, expiry: Expiry::Never });
        put_op(&op, &mut group);
        std::hint::black_box(&group);
    }
    let took_ns = crate::io::clock::now().mono_ns - begin_ns;
    println!("a SET group of {} bytes: {} ns", group.len(), took_ns / u64::from(GROUPS));
    assert_eq!(group.capacity(), 4096);
}
