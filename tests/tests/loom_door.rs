//! Every interleaving of a room's door with a table change (DESIGN 3): loom runs the door's own
//! source, compiled here with loom's lock and atomics.

#![cfg(feature = "loom")]

/// The modules under test, under the paths they name each other by.
#[path = "../../server/src/slot"]
pub mod slot {
    #[path = "admission.rs"]
    pub mod admission;
    #[path = "door.rs"]
    pub mod door;
    #[path = "sync.rs"]
    pub mod sync;
}

use loom::sync::Arc;
use loom::thread;
use slot::admission::{Ownership, Refused};
use slot::door::Door;
use slots::Epoch;

/// What a room holds, as far as the door is concerned.
#[derive(Default)]
struct Inside {
    /// Writes done, each with the epoch it was admitted at.
    writes: Vec<Epoch>,
    /// Somebody waits in the hall.
    waits: bool,
    /// Changes met, in order.
    met: Vec<(Ownership, Epoch)>,
}

fn meet(inside: &mut Inside, ownership: Ownership, epoch: Epoch) {
    inside.met.push((ownership, epoch));
    if ownership == Ownership::Foreign {
        inside.waits = false;
    }
}

fn owned_door() -> Arc<Door<Inside>> {
    let door = Arc::new(Door::new(Inside::default()));
    assert!(door.install(Ownership::Owned, Epoch(1), meet));
    door
}

/// A write as a session does it: in, check, change, leave.
fn write(door: &Door<Inside>, waits: bool) -> Result<Epoch, Option<Refused>> {
    let mut inside = door.try_enter().ok_or(None)?;
    let epoch = door.check(&inside).map_err(Some)?;
    inside.writes.push(epoch);
    inside.waits |= waits;
    door.leave(&mut inside, meet);
    Ok(epoch)
}

#[test]
fn after_a_change_is_installed_nobody_is_admitted_at_the_old_epoch() {
    loom::model(|| {
        let door = owned_door();
        let writer = {
            let door = door.clone();
            thread::spawn(move || write(&door, false))
        };
        let met = door.install(Ownership::Foreign, Epoch(2), meet);
        // Whoever comes now is refused, whatever the writer was doing.
        match write(&door, false) {
            Err(Some(Refused::Moved)) | Err(None) => {}
            other => panic!("admitted after the change: {other:?}"),
        }
        let _ = writer.join().expect("the writer ends");
        assert!(met || door.settle(meet));
        assert_eq!(door.enter().met.last(), Some(&(Ownership::Foreign, Epoch(2))));
    });
}

#[test]
fn a_change_is_met_exactly_once_and_nobody_waits_on_after_it() {
    loom::model(|| {
        let door = owned_door();
        let writer = {
            let door = door.clone();
            thread::spawn(move || write(&door, true))
        };
        let met = door.install(Ownership::Foreign, Epoch(2), meet);
        let _ = writer.join().expect("the writer ends");
        // What the ticker does with a note that was left.
        assert!(met || door.settle(meet), "nobody is inside any more");
        let inside = door.enter();
        assert!(!inside.waits, "a blocked client was left behind");
        let foreign = inside.met.iter().filter(|(o, _)| *o == Ownership::Foreign).count();
        assert_eq!(foreign, 1);
    });
}

#[test]
fn two_changes_leave_the_room_with_the_newer() {
    loom::model(|| {
        let door = owned_door();
        let writer = {
            let door = door.clone();
            thread::spawn(move || write(&door, false))
        };
        door.install(Ownership::Foreign, Epoch(2), meet);
        door.install(Ownership::Owned, Epoch(3), meet);
        let written = writer.join().expect("the writer ends");
        assert!(door.settle(meet));
        let inside = door.enter();
        assert_eq!(inside.met.last(), Some(&(Ownership::Owned, Epoch(3))));
        if let Ok(epoch) = written {
            assert!(epoch == Epoch(1) || epoch == Epoch(3), "admitted at {epoch:?}");
        }
    });
}
