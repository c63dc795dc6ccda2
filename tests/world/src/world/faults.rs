//! Faults: crashes, stops, cuts, bad links, clocks, and data directories that are not what they
//! seem.
//!
//! Invariant: no fault is one that the protocol says nobody may cause: a copy of a directory taken
//! in the node's present boot is never started beside it (PROTOCOL 2), nor is a restored one.

use slots::StoreId;

use super::hosts::Disk;
use super::{Event, World};
use crate::clock::{HONEST_RATE, MS, SECOND, Us};
use crate::log::HostIx;

/// What ends a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Undo {
    GoOn(HostIx),
    Join,
    Calm,
}

/// Copies of directories that are kept.
const MAX_BACKUPS: usize = 20;
/// A wall clock jumps by as much.
const WALL_JUMP_MS: i64 = 3_600_000;

impl World {
    /// A fault, and the time of the next.
    pub(super) fn fault(&mut self) {
        if !self.is_chaos() {
            return;
        }
        let delay = self.dice.between(200, 2000) * MS;
        self.plan_in(delay, Event::Fault);
        let any = self.dice.below(self.hosts.len());
        match self.dice.below(24) {
            0..=3 => self.crash(any),
            4..=6 => self.stop_for_a_while(any),
            7 | 8 => self.split_for_a_while(),
            9 => self.cut_for_a_while(any),
            10 | 11 => self.bad_links_for_a_while(),
            12 => self.shake_clocks(any),
            13 => self.isolate_leader(),
            14 => self.hide_for_a_while(any),
            15 => self.crash_all(),
            16 => self.back_up(any),
            17..=19 => self.start_old_copy(any),
            20 | 21 => self.start_two_copies(),
            22 => self.start_wiped(any),
            _ => self.restore(),
        }
    }

    fn met(&mut self, name: &str) {
        self.oracle.coverage.count("fault", name);
        let line = format!("fault: {name}");
        self.note(|| line);
    }

    fn undo_in(&mut self, most: Us, undo: Undo) {
        let delay = self.dice.between(100 * MS, most);
        self.plan_in(delay, Event::Undo(undo));
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::GoOn(host) => self.go_on(host),
            Undo::Join => self.net.join(),
            Undo::Calm => {
                let net = &mut self.net;
                (net.loss, net.doubling, net.delay) = (0, 0, 2 * MS);
            }
        }
    }

    fn stop_for_a_while(&mut self, host: HostIx) {
        self.met("stopped (SIGSTOP)");
        self.pause(host);
        self.undo_in(10 * SECOND, Undo::GoOn(host));
    }

    fn split_for_a_while(&mut self) {
        self.met("partition");
        let hosts = self.hosts.len();
        let group: Vec<HostIx> = (0..hosts).filter(|_| self.dice.chance(400)).collect();
        self.net.split(&group, hosts);
        self.undo_in(6 * SECOND, Undo::Join);
    }

    fn cut_for_a_while(&mut self, from: HostIx) {
        self.met("one-way cut");
        let to = self.dice.below(self.hosts.len());
        self.net.cut_one_way(from, to);
        self.undo_in(6 * SECOND, Undo::Join);
    }

    /// A host is heard but hears nothing: what it proposes is agreed, and it does not learn of it.
    pub(super) fn deafen_for_a_while(&mut self, host: HostIx) {
        self.met("an owner that gives slots up hears nothing");
        for from in 0..self.hosts.len() {
            self.net.cut_one_way(from, host);
        }
        self.undo_in(4 * SECOND, Undo::Join);
    }

    fn isolate_leader(&mut self) {
        let leads = |host: &HostIx| {
            self.hosts[*host].process.as_ref().is_some_and(|process| process.votes.leads())
        };
        let leaders: Vec<HostIx> = self.running().into_iter().filter(leads).collect();
        if let Some(leader) = self.dice.pick(&leaders) {
            self.met("leader isolated");
            self.net.split(&[leader], self.hosts.len());
            self.undo_in(6 * SECOND, Undo::Join);
        }
    }

    fn bad_links_for_a_while(&mut self) {
        self.met("loss, doubling and delay");
        self.net.loss = self.dice.between(0, 300);
        self.net.doubling = self.dice.between(0, 200);
        self.net.delay = self.dice.between(2, 200) * MS;
        self.undo_in(6 * SECOND, Undo::Calm);
    }

    fn hide_for_a_while(&mut self, host: HostIx) {
        self.met("no client reaches a host");
        self.net.hide(host);
        self.undo_in(4 * SECOND, Undo::Join);
    }

    fn shake_clocks(&mut self, host: HostIx) {
        let rates = [500, 900, HONEST_RATE, 1100];
        let rate = self.dice.pick(&rates).unwrap_or(HONEST_RATE);
        let jumps = [-WALL_JUMP_MS, 0, WALL_JUMP_MS];
        let jump = self.dice.pick(&jumps).unwrap_or(0);
        self.met(&format!("clock rate {rate}/1000"));
        self.met(&format!("wall clock jumps {jump} ms"));
        let now = self.now;
        self.hosts[host].clock.set_rate(now, rate);
        self.hosts[host].clock.shift_wall(jump);
    }

    fn crash_all(&mut self) {
        if self.dice.chance(500) {
            self.met("all crash at once");
            self.running().into_iter().for_each(|host| self.crash(host));
        }
    }

    /// Somebody copies a data directory and keeps the copy.
    fn back_up(&mut self, host: HostIx) {
        if let Some(disk) = self.hosts[host].disk.as_ref().filter(|disk| !disk.is_restored)
            && self.operator.backups.len() < MAX_BACKUPS
        {
            let copy = disk.copy();
            self.operator.backups.push((host, copy));
            self.met("backup of a data directory");
        }
    }

    /// An old copy is started beside or instead of its node; one is made if there is none.
    fn start_old_copy(&mut self, any: HostIx) {
        let backups = self.operator.backups.iter();
        let old = backups.filter(|(host, copy)| self.is_outdated(*host, copy)).cloned();
        let old: Vec<(HostIx, Disk)> = old.collect();
        match self.dice.pick(&old).filter(|_| self.has_room()) {
            Some((host, backup)) => {
                self.met("old copy of a data directory started");
                self.start_on_new_host(host, backup);
            }
            // Copied now, and old once its node has started again.
            None => {
                self.back_up(any);
                self.crash(any);
            }
        }
    }

    /// Has the node started anew since the copy was made, and is the start seated that came after?
    fn is_outdated(&self, host: HostIx, copy: &Disk) -> bool {
        let recorded = self.oracle.truth.table().node(copy.who.0).and_then(|row| row.nonce);
        let newest = self.hosts[host].disk.as_ref().filter(|disk| disk.who == copy.who);
        newest.is_some_and(|disk| disk.record.confirmed > copy.record.confirmed)
            && recorded.is_some_and(|nonce| !copy.record.claims.contains(&nonce))
    }

    fn start_on_new_host(&mut self, of: HostIx, disk: Disk) {
        let host = self.add_host_with(Some(disk));
        self.note(|| format!("   host {host} has a copy of host {of}'s directory"));
        let delay = self.dice.between(0, 1500) * MS;
        self.plan_in(delay, Event::Restart { host });
    }

    /// A node is down, its directory is copied, and both are started.
    fn start_two_copies(&mut self) {
        let down = |host: &HostIx| {
            let disk = self.hosts[*host].disk.as_ref();
            self.hosts[*host].process.is_none() && disk.is_some_and(|disk| !disk.is_restored)
        };
        let down: Vec<HostIx> = (0..self.hosts.len()).filter(down).collect();
        let Some(host) = self.dice.pick(&down).filter(|_| self.has_room()) else {
            let any = self.dice.below(self.hosts.len());
            return self.crash(any);
        };
        let Some(disk) = self.hosts[host].disk.as_ref().map(Disk::copy) else { return };
        self.met("two copies of a data directory started");
        self.start_on_new_host(host, disk);
        let delay = self.dice.between(0, 1500) * MS;
        self.plan_in(delay, Event::Restart { host });
    }

    /// A new disk under a known id.
    fn start_wiped(&mut self, host: HostIx) {
        let Some(who) = self.hosts[host].disk.as_ref().map(|disk| disk.who) else { return };
        if self.has_room() {
            self.met("wiped disk under a known id");
            let store = StoreId::from_bytes(self.dice.bytes());
            self.start_on_new_host(host, Disk::new((who.0, store), false));
        }
    }

    /// A host is lost for good, and a copy of its directory is started with `--restored`.
    fn restore(&mut self) {
        let ids: Vec<_> = self.hosts.iter().map(|at| at.disk.as_ref().map(|d| d.who.0)).collect();
        let may_be_lost = |host: &HostIx| {
            let is_only = ids.iter().filter(|id| **id == ids[*host]).count() == 1;
            ids[*host].is_some() && is_only && !self.log.voters().contains(host)
        };
        let hosts: Vec<HostIx> = (0..self.hosts.len()).filter(may_be_lost).collect();
        let Some(host) = self.dice.pick(&hosts).filter(|_| self.has_room()) else { return };
        let Some(newest) = self.hosts[host].disk.as_ref().map(Disk::copy) else { return };
        let who = newest.who;
        let of_host = self.operator.backups.iter().filter(|(_, disk)| disk.who == who);
        let backups: Vec<Disk> = of_host.map(|(_, disk)| disk.clone()).chain([newest]).collect();
        let Some(mut disk) = self.dice.pick(&backups) else { return };
        self.met("a host is lost, a copy of its directory is started with --restored");
        self.crash(host);
        self.hosts[host].disk = None;
        disk.is_restored = true;
        self.start_on_new_host(host, disk);
    }
}
