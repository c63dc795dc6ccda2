//! Slots, changes, keys, stale clients and the ends of orders as text.
//!
//! Not the asking. Invariant: a node that gave no answer has a line that says so.

use std::fmt::Write;

use serde::Serialize;
use slots::SlotRanges;
use slots::admin::{Done, Explained, HistoryRecord, SlotStatus, Stale};

use super::{Cell, Paint, Tone, columns, count, facts, moment, plain, visible};

/// Clients and slots listed for each node: the worst ones tell the story.
const SHOWN_STALE: usize = 20;

/// The rows that hold some of `wanted`, cut to it; all if nothing is wanted.
pub(crate) fn only(rows: Vec<SlotStatus>, wanted: Option<&SlotRanges>) -> Vec<SlotStatus> {
    let Some(wanted) = wanted else { return rows };
    let cut = |row: SlotStatus| {
        let slots: SlotRanges = row.slots.parse().ok()?;
        let kept = slots.without(&slots.without(wanted));
        (!kept.is_empty()).then(|| SlotStatus { slots: kept.to_string(), ..row })
    };
    rows.into_iter().filter_map(cut).collect()
}

/// `slotctl slots`.
pub(crate) fn slots(rows: &[SlotStatus], paint: Paint) -> String {
    let headings = ["SLOTS", "COUNT", "OWNER", "EPOCH", "IN SYNC", "FOLLOWERS", "ACK", "MOVING TO"];
    let row = |row: &SlotStatus| {
        let number = row.slots.parse::<SlotRanges>().map_or(0, |slots| slots.count());
        let owner = match &row.owner {
            Some(owner) => plain(owner),
            None => (Tone::Bad, "nobody".to_owned()),
        };
        vec![
            plain(&row.slots),
            plain(number.to_string()),
            owner,
            plain(row.epoch.to_string()),
            plain(names(&row.in_sync)),
            plain(names(&row.followers)),
            plain(&row.ack),
            plain(row.moving_to.as_deref().unwrap_or("-")),
        ]
    };
    columns(&headings, &rows.iter().map(row).collect::<Vec<_>>(), paint)
}

/// `slotctl history`, newest first.
pub(crate) fn history(records: &[HistoryRecord], paint: Paint) -> String {
    let headings = ["VERSION", "TIME (UTC)", "NODE", "WHO", "CHANGE", "WHAT"];
    let row = |record: &HistoryRecord| {
        let what = match &record.refused {
            Some(why) => (Tone::Warn, format!("{} REFUSED: {why}", record.detail)),
            None => plain(&record.detail),
        };
        vec![
            plain(record.version.to_string()),
            plain(moment(record.at_ms)),
            plain(&record.node),
            plain(&record.actor),
            plain(&record.change),
            what,
        ]
    };
    columns(&headings, &records.iter().map(row).collect::<Vec<_>>(), paint)
}

/// `slotctl explain`, as the node of this name answered.
pub(crate) fn explain(key: &[u8], explained: &Explained, node: &str, paint: Paint) -> String {
    let row = &explained.row;
    let moving = match (&row.moving_to, &row.move_id) {
        (Some(to), Some(id)) => format!("to {to}, move {id}"),
        (Some(to), None) => format!("to {to}"),
        (None, _) => "no".into(),
    };
    let rows = [
        ("key", key.escape_ascii().to_string()),
        ("hash tag", explained.hash_tag.clone()),
        ("slot", explained.slot.to_string()),
        ("owner", row.owner.clone().unwrap_or_else(|| "nobody".into())),
        ("epoch", format!("{} (in-sync set: version {})", row.epoch, row.ver)),
        ("in sync", names(&row.in_sync)),
        ("followers", names(&row.followers)),
        ("ack", row.ack.clone()),
        ("moving", moving),
        ("asked", format!("{node}, which says: {}", explained.answer)),
    ];
    facts(&rows, paint)
}

/// What one node counted, or why it did not say.
#[derive(Serialize)]
pub(crate) struct StaleNode {
    /// The node's name.
    pub(crate) node: String,
    /// Why there is no answer.
    pub(crate) error: Option<String>,
    /// The answer.
    pub(crate) stale: Option<Stale>,
}

/// `slotctl stale`.
pub(crate) fn stale(nodes: &[StaleNode], paint: Paint) -> String {
    let heard = nodes.iter().filter_map(|node| Some((node, node.stale.as_ref()?)));
    let mut clients: Vec<(u64, Vec<Cell>)> = Vec::new();
    let mut slots: Vec<(u64, Vec<Cell>)> = Vec::new();
    let mut refusals = 0u64;
    for (node, stale) in heard {
        refusals = refusals.saturating_add(stale.refusals);
        clients.extend(stale.clients.iter().map(|client| {
            let name = if client.name.is_empty() { "-" } else { client.name.as_str() };
            let cells = [
                name,
                &client.host,
                &node.node,
                &client.refusals.to_string(),
                &moment(client.last_ms),
                &client.last_slot.to_string(),
            ];
            (client.refusals, cells.into_iter().map(plain).collect())
        }));
        slots.extend(stale.slots.iter().map(|slot| {
            let owner = slot.owner.as_deref().unwrap_or("nobody");
            let cells =
                [&slot.slot.to_string(), &node.node, &slot.refusals.to_string(), owner].map(plain);
            (slot.refusals, cells.into())
        }));
    }
    let heard = nodes.iter().filter(|node| node.stale.is_some()).count();
    let by = format!("counted by {heard} of {}", count(nodes.len(), "node"));
    let refusals = count_u64(refusals, "refusal");
    let mut text = format!("{refusals} for slots of other nodes, {by}\n");
    let headings = ["CLIENT", "HOST", "ASKED", "REFUSALS", "LAST (UTC)", "LAST SLOT"];
    text.push_str(&worst(clients, &headings, paint));
    text.push_str(&worst(slots, &["SLOT", "ASKED", "REFUSALS", "OWNER"], paint));
    for node in nodes {
        if let Some(error) = &node.error {
            let _ = writeln!(text, "{} was not heard: {}", node.node, visible(error));
        }
    }
    text
}

/// The rows with the most refusals, and how many are left out.
fn worst(mut rows: Vec<(u64, Vec<Cell>)>, headings: &[&str], paint: Paint) -> String {
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(refusals, _)| std::cmp::Reverse(*refusals));
    let left_out = rows.len().saturating_sub(SHOWN_STALE);
    let shown: Vec<Vec<Cell>> =
        rows.into_iter().take(SHOWN_STALE).map(|(_, cells)| cells).collect();
    let mut text = format!("\n{}", columns(headings, &shown, paint));
    if left_out > 0 {
        let _ = writeln!(text, "and {left_out} more (--json has all)");
    }
    text
}

/// The end of an order.
pub(crate) fn done(done: &Done, paint: Paint) -> String {
    let nothing = if done.changed { "" } else { "nothing to do: " };
    let said = if done.text.is_empty() { "done" } else { done.text.trim_end_matches('.') };
    let mut text = format!("{nothing}{} (table version {})\n", visible(said), done.table_version);
    for refused in &done.refused {
        let line = format!("slots {} refused: {}", refused.slots, refused.why);
        let _ = writeln!(text, "{}", paint.tone(Tone::Bad, &visible(&line)));
    }
    text
}

fn names(names: &[String]) -> String {
    if names.is_empty() { "-".into() } else { names.join(",") }
}

fn count_u64(number: u64, thing: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), thing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::golden;
    use slots::admin::{RefusedSlots, StaleClient, StaleSlot};

    fn row(slots: &str, owner: Option<&str>) -> SlotStatus {
        SlotStatus {
            slots: slots.into(),
            owner: owner.map(str::to_owned),
            epoch: 12,
            ver: 13,
            in_sync: owner.iter().map(|name| (*name).to_owned()).collect(),
            ack: "in-sync".into(),
            ..SlotStatus::default()
        }
    }

    #[test]
    fn rows_of_slots_are_shown() {
        let mut moving = row("5461-10922,12000", Some("node-b"));
        moving.followers = vec!["node-a".into(), "node-c".into()];
        moving.moving_to = Some("node-c".into());
        let rows = [row("0-5460", Some("node-a")), moving, row("10923-11999", None)];
        golden::check("slots", &slots(&rows, Paint::Plain));
    }

    #[test]
    fn rows_are_cut_to_the_slots_asked_for() {
        let rows = vec![row("0-10,20-30", Some("a")), row("11-19", Some("b")), row("40", None)];
        let wanted: SlotRanges = "5-15,25".parse().expect("slots");
        let kept: Vec<String> =
            only(rows.clone(), Some(&wanted)).into_iter().map(|row| row.slots).collect();
        assert_eq!(kept, ["5-10,25", "11-15"]);
        assert_eq!(only(rows, None).len(), 3);
    }

    #[test]
    fn changes_are_shown_with_their_refusals() {
        let record = |version, refused: Option<&str>| HistoryRecord {
            version,
            at_ms: 1_796_061_559_000,
            node: "node-a".into(),
            actor: "default@10.0.0.9:52114".into(),
            change: "AssignSlots".into(),
            detail: "0-5460 to node-a".into(),
            refused: refused.map(str::to_owned),
        };
        let records = [record(53, Some("0-5460 have an owner")), record(52, None)];
        golden::check("history", &history(&records, Paint::Plain));
    }

    #[test]
    fn a_key_is_explained() {
        let explained = Explained {
            hash_tag: "user:1".into(),
            slot: 10778,
            row: row("10778", Some("node-b")),
            answer: "MOVED 10778 127.0.0.1:7002".into(),
        };
        let key = b"{user:1}:name\n\xff";
        golden::check("explain", &explain(key, &explained, "node-a", Paint::Plain));
    }

    #[test]
    fn stale_clients_are_listed_and_silent_nodes_said() {
        let client = |name: &str, refusals| StaleClient {
            name: name.into(),
            host: "10.0.0.9".into(),
            refusals,
            last_ms: 1_796_061_559_000,
            last_slot: 449,
        };
        let node = |name: &str, stale| StaleNode { node: name.into(), error: None, stale };
        let slot = StaleSlot { slot: 449, refusals: 3, owner: None };
        let few = Stale { refusals: 3, clients: vec![client("", 3)], slots: vec![slot] };
        let many = (0..25).map(|n| client(&format!("ingest-{n}"), 100 - n)).collect();
        let many = Stale { refusals: 2200, clients: many, slots: Vec::new() };
        let error = Some("connection refused".into());
        let silent = StaleNode { node: "node-c".into(), error, stale: None };
        let nodes = [node("node-a", Some(few)), node("node-b", Some(many)), silent];
        golden::check("stale", &stale(&nodes, Paint::Plain));
        let none = [node("node-a", Some(Stale::default()))];
        assert_eq!(
            stale(&none, Paint::Plain),
            "0 refusals for slots of other nodes, counted by 1 of 1 node\n"
        );
    }

    #[test]
    fn an_order_ends_with_a_sentence_and_what_refused() {
        let refused = vec![RefusedSlots { slots: "5-9".into(), why: "they have an owner".into() }];
        let order =
            Done { table_version: 53, changed: true, text: "node-a owns 0-4.".into(), refused };
        let text = "node-a owns 0-4 (table version 53)\nslots 5-9 refused: they have an owner\n";
        assert_eq!(done(&order, Paint::Plain), text);
        let same = Done { table_version: 53, text: "it is so already".into(), ..Done::default() };
        let text = "nothing to do: it is so already (table version 53)\n";
        assert_eq!(done(&same, Paint::Plain), text);
    }
}
