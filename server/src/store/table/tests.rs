//! The table as a whole, against a `HashMap`, and its promises one by one.
//!
//! The model test runs random operations on small and large key universes and on weakened hashes,
//! and recounts the table's bytes from its structure. `SLOTD_MODEL_STEPS=<n>` sets the steps of
//! its long run.
//! Under Miri the tests run with fewer keys and steps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::directory::MAX_DEPTH;
use super::hash::weak::with_mask;
use super::root::Shape;
use super::*;

/// Steps of the long model run without the environment variable.
const MODEL_STEPS: u64 = if cfg!(miri) { 500 } else { 150_000 };

/// splitmix64: the tests' only source of randomness.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn key_of(number: u64) -> Vec<u8> {
    // Every ninth key is long, so that both forms of the header occur; key 0 is empty.
    match number {
        0 => Vec::new(),
        n if n % 9 == 4 => format!("{n:0>300}").into_bytes(),
        n if n % 9 == 5 => format!("{n:0>255}").into_bytes(),
        n => format!("key:{n}").into_bytes(),
    }
}

fn put_bytes<O>(table: &mut Table<O>, key: &[u8], value: &[u8]) -> Old<O> {
    table.put(hash_key(key), key, NewValue::Bytes(value), Expiry::Never)
}

fn filled(keys: u64) -> Table<()> {
    let mut table = Table::new();
    for number in 0..keys {
        put_bytes(&mut table, &key_of(number), b"v");
    }
    table
}

fn depth_of<O>(table: &Table<O>) -> u32 {
    match table.root.shape() {
        Shape::Directory(directory) => directory.depth(),
        _ => 0,
    }
}

/// Checks all that can be recounted: length, bytes, overflow and segment counts, the directory.
fn check_structure<O>(table: &Table<O>) {
    let mut bytes: usize = table.iter().map(|entry| entry.bytes()).sum();
    assert_eq!(table.iter().count(), table.len());
    match table.root.shape() {
        Shape::Empty => assert_eq!(table.len(), 0),
        Shape::Array(run, _) => {
            run.check_overflow();
            bytes += run.buckets() * 64;
        }
        Shape::Directory(directory) => {
            let header = directory.header();
            let (mut index, mut segments, mut deepest, mut count) = (0, 0, 0, 0);
            while index < directory.words() {
                let segment = directory.segment(index);
                let depth = segment.depth();
                assert!((1..=directory.depth()).contains(&depth));
                for word in index..index + directory.span(depth) {
                    assert_eq!(directory.segment(word), segment);
                }
                assert_eq!(index % directory.span(depth), 0);
                assert!(segment.code().buckets() <= header.widest_buckets);
                assert!(segment.count() < segment.slots());
                let prefix = (index / directory.span(depth)) as u64;
                segment.run().check_overflow();
                let mut held = Vec::new();
                segment.run().collect(&mut held);
                assert_eq!(held.len(), segment.count());
                assert!(held.iter().all(|(hash, _)| hash.0 >> (64 - depth) == prefix));
                index += directory.span(depth);
                segments += 1;
                deepest += usize::from(depth == directory.depth());
                count += segment.count();
                bytes += segment.bytes();
            }
            assert_eq!((header.segments, header.deepest), (segments, deepest));
            assert_eq!(count, table.len());
            bytes += directory.bytes();
        }
    }
    assert_eq!(bytes, table.bytes());
}

#[derive(Clone, PartialEq, Debug)]
enum Value {
    Bytes(Vec<u8>),
    Boxed(String),
}

/// The table beside its model.
#[derive(Default)]
struct Pair {
    table: Table<String>,
    model: HashMap<Vec<u8>, (Value, Option<u64>, u8)>,
}

fn value_of(entry: &Entry<'_, String>) -> Value {
    match entry.value() {
        EntryValue::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        EntryValue::Boxed(object) => Value::Boxed(object.clone()),
    }
}

impl Pair {
    fn put(&mut self, key: Vec<u8>, value: Value, expiry: Expiry) {
        let new = match &value {
            Value::Bytes(bytes) => NewValue::Bytes(bytes),
            Value::Boxed(object) => NewValue::Boxed(Box::new(object.clone())),
        };
        let old = self.table.put(hash_key(&key), &key, new, expiry);
        let known = self.model.get(&key);
        Self::check_old(old, known.map(|(value, ..)| value));
        let (before, marks) = known.map_or((None, 0), |(_, at, marks)| (*at, *marks));
        let at = match expiry {
            Expiry::Keep => before,
            Expiry::Never => None,
            Expiry::At(at) => Some(at),
        };
        self.model.insert(key, (value, at, marks));
    }

    fn check_old(old: Old<String>, known: Option<&Value>) {
        match (old, known) {
            (Old::Absent, None) | (Old::Bytes, Some(Value::Bytes(_))) => {}
            (Old::Boxed(object), Some(Value::Boxed(known))) => assert_eq!(*object, *known),
            (old, known) => panic!("{old:?} instead of {known:?}"),
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let old = self.table.remove(hash_key(key), key);
        Self::check_old(old, self.model.remove(key).as_ref().map(|(value, ..)| value));
    }

    fn set_expiry(&mut self, key: &[u8], at: Option<u64>) {
        let done = self.table.set_expiry(hash_key(key), key, at);
        let known = self.model.get_mut(key);
        assert_eq!(done, known.is_some());
        if let Some((_, expiry, _)) = known {
            *expiry = at;
        }
    }

    fn edit(&mut self, key: &[u8], mark: u8) {
        let found = self.table.find_mut(hash_key(key), key);
        let known = self.model.get_mut(key);
        assert_eq!(found.is_some(), known.is_some());
        let (Some(mut entry), Some((value, _, marks))) = (found, known) else { return };
        entry.set_marks(mark);
        *marks = mark;
        match value {
            Value::Boxed(object) => {
                entry.boxed_mut().expect("an object").push('x');
                object.push('x');
                assert!(entry.bytes_mut().is_none());
            }
            Value::Bytes(bytes) => {
                entry.bytes_mut().expect("bytes").reverse();
                bytes.reverse();
                assert!(entry.boxed_mut().is_none());
            }
        }
    }

    fn check_key(&self, key: &[u8]) {
        let found = self.table.find(hash_key(key), key);
        let found = found.map(|entry| (value_of(&entry), entry.expiry(), entry.marks()));
        assert_eq!(found.as_ref(), self.model.get(key));
    }

    fn check_all(&self) {
        assert_eq!(self.table.len(), self.model.len());
        self.model.keys().for_each(|key| self.check_key(key));
        check_structure(&self.table);
        let mut scanned = HashMap::new();
        let mut next = Some(ScanPos::START);
        while let Some(from) = next {
            next = self.table.scan(from, &mut |entry| {
                assert!(ScanPos::of(entry.hash()) >= from);
                *scanned.entry(entry.key().to_vec()).or_insert(0) += 1;
            });
            assert!(next.is_none_or(|next| next > from));
        }
        assert_eq!(scanned.len(), self.model.len());
        assert!(scanned.iter().all(|(key, times)| *times == 1 && self.model.contains_key(key)));
    }

    /// One random operation over `keys` keys; `grow` in 100 of them put.
    fn step(&mut self, random: &mut Random, keys: u64, grow: u64) {
        let key = key_of(random.below(keys));
        let dice = random.below(100);
        if dice < grow {
            let value = match random.below(12) {
                0 => Value::Boxed(format!("object {}", random.below(1000))),
                1 => Value::Bytes(vec![b'l'; 200 + random.below(6000) as usize]),
                2 => Value::Bytes(vec![b'm'; random.below(700) as usize]),
                _ => Value::Bytes(vec![b's'; random.below(40) as usize]),
            };
            let expiry = match random.below(4) {
                0 => Expiry::Keep,
                1 => Expiry::At(random.below(3)),
                _ => Expiry::Never,
            };
            self.put(key, value, expiry);
        } else if dice < 90 {
            self.remove(&key);
        } else if dice < 94 {
            self.set_expiry(&key, dice.is_multiple_of(2).then_some(dice));
        } else if dice < 97 {
            self.edit(&key, random.below(4) as u8);
        } else {
            self.check_key(&key);
        }
    }
}

/// Waves of growth and shrinkage over `keys` keys.
fn run_model(seed: u64, keys: u64, steps: u64) {
    let mut pair = Pair::default();
    let mut random = Random(seed);
    for step in 0..steps {
        // Mostly puts, then mostly removals, by turns that fill and empty the table.
        let growing = (step / (keys * 2)).is_multiple_of(2);
        pair.step(&mut random, keys, if growing { 70 } else { 15 });
        if step % (steps / 20 + 1) == 0 {
            pair.check_all();
        }
    }
    pair.check_all();
    pair.table.clear();
    assert_eq!((pair.table.len(), pair.table.bytes()), (0, 0));
}

#[test]
fn behaves_as_a_hash_map_on_few_keys() {
    run_model(1, 12, MODEL_STEPS / 10);
    run_model(2, 150, MODEL_STEPS / 5);
}

#[test]
fn behaves_as_a_hash_map_on_many_keys() {
    let steps = std::env::var("SLOTD_MODEL_STEPS").ok();
    let steps = steps.map_or(MODEL_STEPS, |text| text.parse().expect("a number of steps"));
    run_model(3, 12_000, steps);
}

#[test]
fn behaves_as_a_hash_map_when_hashes_collide() {
    let steps = MODEL_STEPS / 15;
    // Nothing differs; only tags differ; only the top bit and the tags; only low position bits.
    for (mask, keys) in [(0, 300), (0xff, 2_000), (1 << 63 | 0xff, 2_000), (0x1fff_00ff, 3_000)] {
        with_mask(mask, || run_model(mask ^ 9, keys, steps));
    }
    // A common prefix of 20 bits: one segment takes all splits.
    with_mask(u64::MAX >> 20, || run_model(5, 4_000, steps));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 60 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn behaves_as_a_hash_map_in_any_order(
        seed in any::<u64>(),
        keys in prop_oneof![1u64..20, 20u64..600, 600u64..3_000],
        mask in prop_oneof![
            4 => Just(u64::MAX), 1 => Just(0u64), 1 => any::<u64>(), 1 => Just(u64::MAX << 50),
        ],
        phases in prop::collection::vec((0u64..100, 1u64..1_500), 1..6),
    ) {
        with_mask(mask, || {
            let mut pair = Pair::default();
            let mut random = Random(seed);
            for (grow, steps) in phases {
                // All equal hashes make every operation walk all entries.
                let steps = if mask.count_ones() < 8 { steps / 4 } else { steps };
                (0..steps).for_each(|_| pair.step(&mut random, keys, grow));
                pair.check_all();
            }
        });
    }
}

#[test]
fn scan_finds_all_that_stay_while_the_table_grows_and_shrinks() {
    let (stay, come) = if cfg!(miri) { (60, 400) } else { (1_000, 12_000) };
    for seed in 0..4 {
        let mut random = Random(seed);
        let mut table = filled(stay);
        let (mut seen, mut calls, mut next) = (vec![0u32; stay as usize], 0, Some(ScanPos(0)));
        let (mut smallest, mut largest) = (u32::MAX, 0);
        let numbers: HashMap<_, _> = (0..stay).map(|number| (key_of(number), number)).collect();
        while let Some(from) = next {
            next = table.scan(from, &mut |entry| {
                if let Some(number) = numbers.get(entry.key()) {
                    seen[*number as usize] += 1;
                }
            });
            calls += 1;
            // Waves: many keys come, then go, between calls.
            let wave = (calls / 64 + seed) % 2 == 0;
            for _ in 0..come / 64 {
                let key = key_of(stay + random.below(come));
                if wave {
                    put_bytes(&mut table, &key, b"guest");
                } else {
                    table.remove(hash_key(&key), &key);
                }
            }
            (smallest, largest) = (smallest.min(depth_of(&table)), largest.max(depth_of(&table)));
            assert!(calls < 100_000, "the scan does not end");
        }
        assert!(seen.iter().all(|times| *times == 1), "seed {seed}");
        assert!(cfg!(miri) || largest > smallest + 1, "depths {smallest}..{largest}");
        check_structure(&table);
    }
}

#[test]
fn scan_from_any_position_visits_exactly_the_range_up_to_the_next() {
    let table = filled(if cfg!(miri) { 100 } else { 3_000 });
    let mut random = Random(7);
    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
        let from = ScanPos(random.below(1 << 48));
        let mut visited = 0;
        let next = table.scan(from, &mut |_| visited += 1);
        let end = next.unwrap_or(ScanPos(1 << 48));
        let inside = |entry: &Entry<'_, ()>| (from..end).contains(&ScanPos::of(entry.hash()));
        assert_eq!(table.iter().filter(inside).count(), visited);
    }
    assert_eq!(table.scan(ScanPos(1 << 48), &mut |_| panic!("behind the end")), None);
    assert_eq!(Table::<()>::new().scan(ScanPos::START, &mut |_| panic!("empty")), None);
}

fn chi_square_of_random(table: &Table<()>, draws: u64, random: &mut Random) -> f64 {
    let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
    for _ in 0..draws {
        let entry = table.random(&mut || random.next()).expect("not empty");
        *counts.entry(entry.key().to_vec()).or_insert(0) += 1;
    }
    let expected = draws as f64 / table.len() as f64;
    let deviation = |entry: Entry<'_, ()>| {
        let count = counts.get(entry.key()).copied().unwrap_or(0);
        (count as f64 - expected).powi(2) / expected
    };
    table.iter().map(deviation).sum()
}

#[test]
fn random_is_uniform_in_small_large_and_skewed_tables() {
    if cfg!(miri) {
        return;
    }
    let mut random = Random(11);
    let mut check = |table: &Table<()>| {
        let freedom = (table.len() - 1) as f64;
        let chi = chi_square_of_random(table, 60 * table.len() as u64, &mut random);
        // 5 sigma of the chi-square distribution.
        let bound = 5.0 * (2.0 * freedom).sqrt() + 3.0;
        assert!((chi - freedom).abs() < bound, "{chi} for {freedom}");
    };
    for keys in [1, 5, 40, 300, 370, 3_000] {
        check(&filled(keys));
    }
    let mut shrunk = filled(6_000);
    for number in 40..6_000 {
        // Half of the hashes go: some segments stay full, others merge.
        let key = key_of(number);
        if hash_key(&key).0 >> 62 != 1 {
            shrunk.remove(hash_key(&key), &key);
        }
    }
    check(&shrunk);
    // All under one prefix: wide segments, and draws that end with a rank.
    with_mask(0x0000_ffff_ffff_ffff, || check(&filled(2_000)));
    assert!(Table::<()>::new().random(&mut || 0).is_none());
}

#[test]
fn random_ends_with_a_broken_generator() {
    let table = filled(2_000);
    for word in [0, 1, u64::MAX, 1 << 63] {
        assert!(table.random(&mut || word).is_some());
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn every_object_is_dropped_once() {
    let alive = AtomicUsize::new(0);
    let object = || {
        alive.fetch_add(1, Ordering::Relaxed);
        NewValue::Boxed(Box::new(Counted(&alive)))
    };
    let keys = if cfg!(miri) { 40 } else { 2_000 };
    let mut table = Table::new();
    for number in 0..keys {
        let key = key_of(number);
        table.put(hash_key(&key), &key, object(), Expiry::At(5));
        if number % 2 == 0 {
            table.put(hash_key(&key), &key, object(), Expiry::Never);
        }
        if number % 3 == 0 {
            put_bytes(&mut table, &key, b"bytes now");
        }
        if number % 5 == 0 {
            table.remove(hash_key(&key), &key);
        }
    }
    let boxed = table.iter().filter(|entry| matches!(entry.value(), EntryValue::Boxed(_)));
    assert_eq!(boxed.count(), alive.load(Ordering::Relaxed));
    table.clear();
    assert_eq!((alive.load(Ordering::Relaxed), table.bytes()), (0, 0));
    for number in 0..keys {
        table.put(hash_key(&key_of(number)), &key_of(number), object(), Expiry::Never);
    }
    drop(table);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn overwriting_within_the_size_class_allocates_nothing() {
    let mut table = Table::<()>::new();
    let key = b"0123456789abcdef";
    let address = |table: &Table<()>| match table.find(hash_key(key), key).expect("put").value() {
        EntryValue::Bytes(bytes) => bytes.as_ptr().addr(),
        EntryValue::Boxed(_) => unreachable!("no objects here"),
    };
    for (first, second) in [(30, 40), (290, 280), (512, 500), (5_000, 4_500)] {
        put_bytes(&mut table, key, &vec![1; first]);
        let (at, bytes) = (address(&table), table.bytes());
        put_bytes(&mut table, key, &vec![2; second]);
        assert_eq!((address(&table), table.bytes()), (at, bytes), "{first} then {second}");
    }
    // 8 + 16 + 24 fill a class of 48; with an expiry they need 64.
    put_bytes(&mut table, key, &[0; 24]);
    let before = table.bytes();
    assert!(table.set_expiry(hash_key(key), key, Some(0)));
    assert_eq!(table.bytes(), before + 16);
}

#[test]
fn access_and_marks_survive_overwrites_and_moves() {
    let mut table = Table::<String>::new();
    let key = b"k";
    put_bytes(&mut table, key, b"short");
    let entry = table.find(hash_key(key), key).expect("put");
    assert_eq!((entry.access(), entry.marks(), entry.hash()), (0, 0, hash_key(key)));
    entry.set_access(54_321);
    table.find_mut(hash_key(key), key).expect("put").set_marks(3);
    put_bytes(&mut table, key, &[b'x'; 900]);
    table.put(hash_key(key), key, NewValue::Boxed(Box::new("o".into())), Expiry::At(9));
    table.set_expiry(hash_key(key), key, None);
    let copy = table.clone();
    for table in [&table, &copy] {
        let entry = table.find(hash_key(key), key).expect("put");
        assert_eq!((entry.access(), entry.marks(), entry.expiry()), (54_321, 3, None));
        assert!(matches!(entry.value(), EntryValue::Boxed(object) if object == "o"));
    }
    assert_eq!(copy.bytes(), table.bytes());
}

#[test]
fn structure_follows_the_number_of_keys_both_ways() {
    let keys = if cfg!(miri) { 1_000 } else { 30_000 };
    let mut table = filled(keys);
    check_structure(&table);
    let full = table.bytes();
    for number in (0..keys).rev() {
        let key = key_of(number);
        table.remove(hash_key(&key), &key);
        if number % (keys / 8) == 0 {
            check_structure(&table);
        }
        if number == keys / 20 && !cfg!(miri) {
            assert!(table.bytes() < full / 8, "{} of {full}", table.bytes());
        }
        if number == 50 {
            assert_eq!(depth_of(&table), 0);
        }
    }
    assert_eq!((table.len(), table.bytes(), table.hint().to_raw()), (0, 0, 0));
}

#[test]
fn colliding_keys_do_not_blow_up_the_directory() {
    let keys = if cfg!(miri) { 450 } else { 4_000 };
    with_mask(0x0000_0000_00ff_ffff, || {
        let table = filled(keys);
        assert_eq!(table.len() as u64, keys);
        assert!(depth_of(&table) < 10 && depth_of(&table) < MAX_DEPTH);
        check_structure(&table);
    });
}

#[test]
fn prefetches_and_hints_are_harmless() {
    for keys in [0, 3, 200, 2_000] {
        let table = filled(keys);
        let hint = TableHint::from_raw(table.hint().to_raw());
        assert_eq!(hint, table.hint());
        for number in 0..keys + 5 {
            let hash = hash_key(&key_of(number));
            hint.prefetch(hash);
            table.prefetch_bucket(hash);
            table.prefetch_entry(hash);
        }
    }
    for raw in [1, 15, 16, 63, usize::MAX, usize::MAX - 63] {
        TableHint::from_raw(raw).prefetch(KeyHash(u64::MAX));
    }
}

#[test]
fn a_scan_whose_visitor_panics_leaves_the_table_whole() {
    let table = filled(500);
    let scan = std::panic::AssertUnwindSafe(|| {
        table.scan(ScanPos::START, &mut |_| std::panic::resume_unwind(Box::new(())))
    });
    assert!(std::panic::catch_unwind(scan).is_err());
    check_structure(&table);
}

#[test]
fn tables_can_be_sent() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    assert_eq!(is_send(filled(10)).len(), 10);
}
