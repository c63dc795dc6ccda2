//! One slot's lock is held: whoever wants that slot waits, nobody else does, and a table change
//! takes effect meanwhile. Only the order of events counts here; `stall-probe` measures times.

use std::time::Duration;

use slot_tests::keys::key_in;
use slot_tests::process::Node;
use slot_tests::resp::Value;

/// Longer than the test takes; the node is ended with the lock still held.
const HOLD_MS: &str = "60000";
const HELD: u16 = 100;
const CHANGED: u16 = 200;

#[test]
fn a_held_slot_stops_its_own_clients_only() {
    let args = ["--cluster-enabled", "yes", "--enable-debug-command", "yes"];
    let node = Node::start(&args).unwrap();
    let mut other = node.client().unwrap();
    assert_eq!(other.say("CLUSTER ADDSLOTSRANGE 0 16383").unwrap(), Value::ok());
    let full = "CONFIG SET cluster-require-full-coverage no";
    assert_eq!(other.say(full).unwrap(), Value::ok());
    let mut holder = node.client().unwrap();
    holder.send(&["DEBUG", "SLOT-HOLD", &HELD.to_string(), HOLD_MS]).unwrap();
    // Held once a request for the slot is no longer answered.
    let mut probe = node.client().unwrap();
    loop {
        probe.send(&["GET", &key_in(HELD)]).unwrap();
        if probe.is_silent_for(Duration::from_millis(200)).unwrap() {
            break;
        }
        assert_eq!(probe.read().unwrap(), Value::NullBulk);
    }
    // Many wait for the slot, more than there are worker threads.
    let mut waiters: Vec<_> = (0..32).map(|_| node.client().unwrap()).collect();
    for waiter in &mut waiters {
        waiter.send(&["GET", &key_in(HELD)]).unwrap();
    }
    let elsewhere = (0..16_384_u16).step_by(97).filter(|slot| ![HELD, CHANGED].contains(slot));
    let keys: Vec<String> = elsewhere.map(key_in).collect();
    for key in keys.iter().cycle().take(2_000) {
        assert_eq!(other.call(&["SET", key, "v"]).unwrap(), Value::ok(), "{key}");
    }
    let mut late = node.client().unwrap();
    assert_eq!(late.say("PING").unwrap(), Value::Simple("PONG".into()));
    // A change of the table neither waits for the held room nor for those who wait for it.
    assert_eq!(other.say(&format!("CLUSTER DELSLOTS {CHANGED}")).unwrap(), Value::ok());
    let refused = late.call(&["GET", &key_in(CHANGED)]).unwrap();
    assert!(
        matches!(&refused, Value::Error(text) if text.starts_with("CLUSTERDOWN")),
        "{refused:?}"
    );
    assert!(holder.is_silent_for(Duration::from_millis(1)).unwrap(), "the hold is over already");
    for waiter in &mut waiters {
        assert!(waiter.is_silent_for(Duration::from_millis(1)).unwrap(), "served through the lock");
    }
}
