//! Measures how long no change of the table is possible when the leader is gone: it is killed, or
//! its process stands still, and an operator at another node gives one command and waits.
//!
//! Prints the times, sorted, and beside them the marks of `chaos`. Ends with exit 1 only if a
//! change was not made at all: the bound itself is asserted where time is simulated.

use slot_tests::figures::Waits;
use slot_tests::flags::Flags;
use slot_tests::fleet::Fleet;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

const USAGE: &str = "leader-kills [--nodes N] [--rounds N] [--only kill|stop]";
/// Marks of the issue, printed beside what was seen.
const MEDIAN_MARK: Duration = Duration::from_secs(3);
const WORST_MARK: Duration = Duration::from_secs(6);
/// No change in this time: something is broken.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// Between two looks.
const POLL: Duration = Duration::from_millis(20);
/// An operator's patience for one command; it is longer than the server's.
const COMMAND: Duration = Duration::from_secs(15);

/// How the leader goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Kill,
    Stop,
}

fn main() -> io::Result<()> {
    let mut flags = Flags::from_env(USAGE);
    let nodes: u16 = flags.value("--nodes", 5);
    let rounds: usize = flags.value("--rounds", 20);
    let only: String = flags.value("--only", String::new());
    flags.finish();
    let mut fleet = Fleet::start(nodes, &["--cluster-require-full-coverage", "no"])?;
    fleet.wait_until_all_vote(GIVEN_UP)?;
    for (way, name) in [(Way::Kill, "kill"), (Way::Stop, "stop")] {
        if only.is_empty() || only == name {
            measure(&mut fleet, way, rounds)?;
        }
    }
    Ok(())
}

fn measure(fleet: &mut Fleet, way: Way, rounds: usize) -> io::Result<()> {
    let mut waits = Waits::default();
    let mut times = Vec::new();
    for round in 0..rounds {
        let leader = leader(fleet)?;
        let asked = (leader + 1 + round % (fleet.len() - 1)) % fleet.len();
        let id = fleet.ask(asked, &["CLUSTER", "MYID"])?;
        let id = id.text().unwrap_or_default().to_owned();
        let mut client = fleet.client(asked)?;
        client.wait_at_most(COMMAND);
        let value = format!("{way:?}-{round}");
        match way {
            Way::Kill => drop(fleet.kill(leader)?),
            Way::Stop => fleet.pause(leader)?,
        }
        let gone = Instant::now();
        let mut refusals = Vec::new();
        loop {
            let said = client.call(&["SLOTD", "NODE", "LABEL", &id, "leader", &value])?;
            if said.text().is_some_and(|text| text.contains("table_version")) {
                break;
            }
            refusals.push(format!("{said:?}"));
            if gone.elapsed() > GIVEN_UP {
                return Err(io::Error::other(format!("no change for {GIVEN_UP:?}: {refusals:?}")));
            }
            sleep(POLL);
        }
        let took = gone.elapsed();
        println!("{way:?} {round}: {:.2} s, refused {} times", took.as_secs_f64(), refusals.len());
        waits.add(took);
        times.push(took);
        match way {
            Way::Kill => fleet.begin(leader)?,
            Way::Stop => fleet.resume(leader)?,
        }
        fleet.wait_until_serving(GIVEN_UP)?;
        fleet.wait_until_all_vote(GIVEN_UP)?;
    }
    print(way, &mut waits, times);
    Ok(())
}

/// The node that leads, once all that run name the same.
fn leader(fleet: &mut Fleet) -> io::Result<usize> {
    let named = |fleet: &Fleet| {
        let said = (0..fleet.len()).map(|node| leader_by(fleet, node)).collect::<Vec<_>>();
        said[0].filter(|_| said.iter().all(|leader| *leader == said[0]))
    };
    fleet.wait_for(GIVEN_UP, "all name one leader", |fleet| named(fleet).is_some())?;
    named(fleet).ok_or_else(|| io::Error::other("the leader changed while it was asked for"))
}

fn leader_by(fleet: &Fleet, node: usize) -> Option<usize> {
    let said = fleet.ask(node, &["SLOTD", "STATUS"]).ok()?;
    let status: serde_json::Value = serde_json::from_str(said.text()?).ok()?;
    let mut rows = status["nodes"].as_array()?.iter();
    let leads = rows.find(|row| row["role"] == "leader")?;
    leads["name"].as_str()?.strip_prefix("node-")?.parse().ok()
}

fn print(way: Way, waits: &mut Waits, mut times: Vec<Duration>) {
    times.sort();
    let all: Vec<String> = times.iter().map(|t| format!("{:.2}", t.as_secs_f64())).collect();
    println!("{way:?}: {} s", all.join(" "));
    println!(
        "{way:?} of the leader, {} times: changes possible again after a median of {:.2} s (mark \
         {:.0}), worst {:.2} s (mark {:.0})",
        times.len(),
        waits.percentile(0.5).as_secs_f64(),
        MEDIAN_MARK.as_secs_f64(),
        waits.longest().as_secs_f64(),
        WORST_MARK.as_secs_f64(),
    );
}
