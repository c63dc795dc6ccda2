//! The family's scripts, and what a script cannot say: chances and big sets.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use proptest::prelude::*;

use crate::testing::{TestNode, play_file, run_script};

#[test]
fn scores_are_set_and_members_removed() {
    run_script("zset/add.txt");
}

#[test]
fn scores_are_infinite_minus_zero_or_no_numbers() {
    run_script("zset/scores.txt");
}

#[test]
fn members_are_looked_up() {
    run_script("zset/read.txt");
}

#[test]
fn ranges_are_listed_and_counted() {
    run_script("zset/range.txt");
}

#[test]
fn ranges_are_stored_and_removed() {
    run_script("zset/store.txt");
}

#[test]
fn sets_are_combined() {
    run_script("zset/combine.txt");
}

#[test]
fn members_are_popped() {
    run_script("zset/pop.txt");
}

#[test]
fn clients_wait_for_members() {
    run_script("zset/block.txt");
}

#[test]
fn random_members_are_drawn() {
    run_script("zset/random.txt");
}

#[test]
fn watchers_hear_of_changes_only() {
    run_script("zset/watch.txt");
}

#[test]
fn a_wrong_number_of_keys_is_told_by_the_command() {
    run_script("zset/no_keys.txt");
}

#[test]
fn replies_have_their_resp3_forms() {
    let mut node = TestNode::new(&[]);
    node.call(1, &[b"HELLO", b"3"]);
    play_file(&mut node, "zset/resp3.txt");
}

/// The bulk strings of a reply, in order.
fn bulks(reply: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(reply).expect("text");
    let lines: Vec<&str> = text.split("\r\n").collect();
    let is_length = |line: &str| line.strip_prefix('$').is_some_and(|n| n.parse::<u32>().is_ok());
    lines.windows(2).filter(|pair| is_length(pair[0])).map(|pair| pair[1].to_owned()).collect()
}

fn filled(node: &mut TestNode, members: usize) {
    for i in 0..members {
        node.call(1, &[b"ZADD", b"z", b"1", format!("m{i:05}").as_bytes()]);
    }
}

#[test]
fn distinct_draws_are_distinct_and_fair() {
    for members in [10, 300] {
        let mut node = TestNode::new(&[]);
        filled(&mut node, members);
        for count in [1, 3, 9] {
            let draws = 200 * members / count;
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            for _ in 0..draws {
                let reply = node.call(1, &[b"ZRANDMEMBER", b"z", count.to_string().as_bytes()]);
                let drawn = bulks(&reply);
                assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), count);
                drawn.into_iter().for_each(|member| *seen.entry(member).or_default() += 1);
            }
            assert_eq!(seen.len(), members);
            // 200 expected each; 6 standard deviations are 85.
            assert!(seen.values().all(|n| (115..285).contains(n)), "{count}: {seen:?}");
        }
    }
}

#[test]
fn repeated_draws_are_fair() {
    let mut node = TestNode::new(&[]);
    filled(&mut node, 10);
    let drawn = bulks(&node.call(1, &[b"ZRANDMEMBER", b"z", b"-2000"]));
    assert_eq!(drawn.len(), 2000);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    drawn.into_iter().for_each(|member| *seen.entry(member).or_default() += 1);
    assert!(seen.len() == 10 && seen.values().all(|n| (115..285).contains(n)), "{seen:?}");
}

#[test]
fn a_scan_over_a_shrinking_sorted_set_misses_nothing_that_stays() {
    let mut node = TestNode::new(&[]);
    filled(&mut node, 20_000);
    let mut seen = HashSet::new();
    let mut cursor = "0".to_owned();
    let mut calls = 0;
    loop {
        let reply = node.call(1, &[b"ZSCAN", b"z", cursor.as_bytes(), b"COUNT", b"10"]);
        let mut words = bulks(&reply).into_iter();
        cursor = words.next().expect("a cursor");
        seen.extend(words.step_by(2));
        calls += 1;
        if calls == 300 {
            assert_ne!(cursor, "0");
            for i in 300..20_000 {
                node.call(1, &[b"ZREM", b"z", format!("m{i:05}").as_bytes()]);
            }
        }
        if cursor == "0" {
            break;
        }
    }
    assert!((0..300).all(|i| seen.contains(&format!("m{i:05}"))));
}

type Model = BTreeMap<u8, i32>;

/// Members with scores as ZRANGE lists them.
fn in_order(model: &Model) -> Vec<String> {
    let mut pairs: Vec<(i32, u8)> = model.iter().map(|(member, score)| (*score, *member)).collect();
    pairs.sort_unstable();
    pairs.iter().flat_map(|(score, member)| [format!("m{member:02}"), score.to_string()]).collect()
}

/// Scores and weights whose products are never -0, which integers do not have.
fn nonzero() -> impl Strategy<Value = i32> {
    prop_oneof![-9i32..0, 1i32..10]
}

proptest! {
    #[test]
    fn combined_sets_agree_with_a_model(
        inputs in prop::collection::vec(
            (prop::collection::btree_map(0u8..12, nonzero(), 0..10), nonzero()),
            1..4,
        ),
        aggregate in 0usize..3,
        entries in prop::sample::select(vec!["0", "128"]),
    ) {
        let mut node = TestNode::new(&["--zset-max-listpack-entries", entries]);
        let (mut keys, mut weights) = (Vec::new(), Vec::new());
        for (i, (model, weight)) in inputs.iter().enumerate() {
            let key = format!("{{t}}{i}");
            for (member, score) in model {
                let (score, member) = (score.to_string(), format!("m{member:02}"));
                node.call(1, &[b"ZADD", key.as_bytes(), score.as_bytes(), member.as_bytes()]);
            }
            keys.push(key);
            weights.push(weight.to_string());
        }
        let word = ["SUM", "MIN", "MAX"][aggregate];
        let merged = |a: i32, b: i32| [a + b, a.min(b), a.max(b)][aggregate];
        let mut union = Model::new();
        for (model, weight) in &inputs {
            for (member, score) in model {
                let score = score * weight;
                union.entry(*member).and_modify(|t| *t = merged(*t, score)).or_insert(score);
            }
        }
        let everywhere = |m: &u8| inputs.iter().all(|(model, _)| model.contains_key(m));
        let pairs = |(m, s): (&u8, &i32)| (*m, *s);
        let inter: Model = union.iter().filter(|(m, _)| everywhere(m)).map(pairs).collect();
        let others: BTreeSet<u8> = inputs[1..].iter().flat_map(|i| i.0.keys().copied()).collect();
        let first = inputs[0].0.iter();
        let diff: Model = first.filter(|(m, _)| !others.contains(m)).map(pairs).collect();

        for (verb, expected) in [("ZUNION", &union), ("ZINTER", &inter), ("ZDIFF", &diff)] {
            let count = keys.len().to_string();
            let mut tail: Vec<&[u8]> = vec![count.as_bytes()];
            tail.extend(keys.iter().map(|key| key.as_bytes()));
            if verb != "ZDIFF" {
                tail.push(b"WEIGHTS");
                tail.extend(weights.iter().map(|weight| weight.as_bytes()));
                tail.extend([b"AGGREGATE".as_slice(), word.as_bytes()]);
            }
            let listed = [&[verb.as_bytes()], &tail[..], &[b"WITHSCORES".as_slice()]].concat();
            prop_assert_eq!(bulks(&node.call(1, &listed)), in_order(expected), "{}", verb);
            let store = format!("{verb}STORE");
            let stored = [&[store.as_bytes(), b"{t}d".as_slice()], &tail[..]].concat();
            let reply = node.call(1, &stored);
            prop_assert_eq!(reply, format!(":{}\r\n", expected.len()).into_bytes());
            let found = node.call(1, &[b"ZRANGE", b"{t}d", b"0", b"-1", b"WITHSCORES"]);
            prop_assert_eq!(bulks(&found), in_order(expected));
        }
    }
}
