//! The power goes again and again under load: the process is killed, and its data folder becomes
//! what a disk may hold without power (`shadow`).
//!
//! `always` must keep all that was acknowledged; `everysec` what was acknowledged more than a
//! second and one flush before, and it must say that its tail may be lost.
//! Invariant: after each cut everything is looked at before anything is written.

use super::Mode;
use super::load::{Load, Promise};
use crate::dice::Dice;
use crate::figures::Waits;
use crate::lives::Lives;
use crate::shadow::{Damage, Shadow, quick_folder};
use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A start takes no longer.
const START: Duration = Duration::from_secs(120);
/// What `everysec` promises, without the flush.
const EVERY: Duration = Duration::from_secs(1);
/// A busy machine wakes a thread later than it was asked to.
const SLACK: Duration = Duration::from_millis(100);

/// What is done.
pub struct Setup {
    /// The server.
    pub binary: PathBuf,
    /// Its log.
    pub mode: Mode,
    /// What it is judged as: another mode than its own must be noticed.
    pub judged_as: Mode,
    /// How often the power goes.
    pub cuts: u32,
    /// Of all choices.
    pub seed: u64,
    /// Writers, each with a connection.
    pub writers: usize,
    /// Shelves of each writer.
    pub shelves: usize,
    /// Whether pages that were not synced may be there all the same.
    pub tears: bool,
    /// Whether names are safe at once.
    pub names_stay: bool,
    /// The disk does nothing when told to sync a path with this in it.
    pub lie: Option<String>,
    /// What a sync takes at least.
    pub sync_delay: Duration,
    /// Print each cut.
    pub is_told: bool,
}

/// What was seen.
pub struct Figures {
    /// Power losses.
    pub cuts: u32,
    /// From a start to the first answer.
    pub recoveries: Waits,
    /// The oldest acknowledged write that was lost was so old, cut by cut.
    pub losses: Waits,
    /// The longest flush.
    pub flush: Duration,
    /// What the cuts did to the files.
    pub damage: Damage,
    /// What the node said it kept, as often.
    pub kept: Vec<(String, u32)>,
    /// Counts and faults.
    pub load: Load,
}

/// Cuts, starts and looks; an error if the server does not come back.
pub fn run(setup: &Setup) -> io::Result<Figures> {
    let mut lives = Lives::new(&setup.binary, &setup.mode.args(), Some(&quick_folder()))?;
    let mut shadow = Shadow::new(lives.data(), lives.home().to_owned())?;
    (shadow.tears, shadow.names_stay) = (setup.tears, setup.names_stay);
    shadow.env().into_iter().for_each(|(name, value)| lives.set_env(name, value));
    lives.set_env("SLOTD_SHIM_DELAY_US", setup.sync_delay.as_micros().to_string());
    if let Some(part) = &setup.lie {
        lives.set_env("SLOTD_SHIM_LIE", part);
    }
    let tags = Load::tags(setup.writers * setup.shelves);
    let mut run = Run {
        figures: Figures {
            cuts: 0,
            recoveries: Waits::default(),
            losses: Waits::default(),
            flush: Duration::ZERO,
            damage: Damage::default(),
            kept: Vec::new(),
            load: Load::new(setup.writers, tags, 0, setup.seed),
        },
        dice: Dice::new(setup.seed ^ 0xCC),
        shadow,
        setup,
    };
    lives.begin()?;
    run.figures.load.wait_until_serving(&mut lives, START)?;
    while run.figures.cuts < setup.cuts && run.figures.load.findings.holds() {
        run.one_cut(&mut lives)?;
    }
    run.end(&mut lives)?;
    Ok(run.figures)
}

struct Run<'a> {
    setup: &'a Setup,
    figures: Figures,
    dice: Dice,
    shadow: Shadow,
}

impl Run<'_> {
    fn one_cut(&mut self, lives: &mut Lives) -> io::Result<()> {
        // A life must outlast the second that may be lost, or nothing is promised of it.
        let life = match self.setup.judged_as {
            Mode::Always => self.dice.within(20..800),
            _ => self.dice.within(300..3500),
        };
        let order = match self.dice.below(100) {
            0..70 => None,
            70..85 => Some("BGSAVE"),
            _ => Some("BGREWRITEAOF"),
        };
        let saving = Duration::from_millis(self.dice.below(60));
        let ends = order.is_some() && self.dice.percent(50);
        let address = lives.address();
        let cut_at = self.figures.load.run(&address, |_| {
            sleep(Duration::from_millis(life));
            if let Some(order) = order {
                lives.client()?.call(&[order])?;
                if ends {
                    lives.wait_until_saved()?;
                }
                sleep(saving);
            }
            lives.check_alive()?;
            let cut_at = Instant::now();
            lives.kill()?;
            Ok(cut_at)
        })?;
        let flush = self.shadow.longest_flush();
        self.figures.flush = self.figures.flush.max(flush);
        let damage = self.shadow.cut(&mut self.dice)?;
        self.figures.damage.units_back += damage.units_back;
        self.figures.damage.names_back += damage.names_back;
        self.figures.cuts += 1;
        self.come_back(lives, cut_at, flush)
    }

    fn come_back(&mut self, lives: &mut Lives, cut_at: Instant, flush: Duration) -> io::Result<()> {
        let promise = match self.setup.judged_as {
            Mode::Always => Promise::All,
            Mode::Everysec => Promise::Before(cut_at - EVERY - flush - SLACK),
            // The kernel writes when it likes, or there is nothing that it could write.
            Mode::No | Mode::Memory => Promise::Before(cut_at - START),
        };
        lives.begin()?;
        let Figures { load, losses, recoveries, .. } = &mut self.figures;
        recoveries.add(load.wait_until_serving(lives, START)?);
        load.check(&lives.address(), promise)?;
        let oldest = load.findings.oldest_loss.take();
        let loss = oldest.map_or(Duration::ZERO, |oldest| cut_at - oldest);
        losses.add(loss);
        if self.setup.is_told {
            let (cuts, damage) = (self.figures.cuts, self.figures.damage);
            println!("cut {cuts}: lost the last {:.0} ms, so far {damage:?}", ms(loss));
        }
        self.note_kept(lives)
    }

    /// What the node told the others of what it kept: the table's last record of its start.
    fn note_kept(&mut self, lives: &Lives) -> io::Result<()> {
        let history = lives.client()?.call(&["SLOTD", "HISTORY"])?;
        // A server that is not slotd has no such history.
        let Some(word) = kept_by(history.text().unwrap_or_default()) else { return Ok(()) };
        let wanted = if self.setup.mode == Mode::Always { "All" } else { "Tail" };
        if word != wanted && self.setup.mode != Mode::Memory {
            let text = format!("it says that it kept {word}, not {wanted}");
            self.figures.load.findings.add(text);
        }
        match self.figures.kept.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => self.figures.kept.push((word, 1)),
        }
        Ok(())
    }

    /// An orderly end is followed by a cut that must not matter.
    fn end(&mut self, lives: &mut Lives) -> io::Result<()> {
        let address = lives.address();
        let load = &mut self.figures.load;
        load.run(&address, |_| {
            sleep(Duration::from_millis(300));
            lives.shut_down()
        })?;
        self.shadow.cut(&mut self.dice)?;
        lives.begin()?;
        load.wait_until_serving(lives, START)?;
        load.check(&address, Promise::All)
    }
}

impl Figures {
    /// Prints all; whether it holds.
    pub fn report(&mut self) -> bool {
        let (total, damage) = (self.load.total, self.damage);
        println!(
            "power losses: {}; {} pages or sectors and {} names went back",
            self.cuts, damage.units_back, damage.names_back,
        );
        println!(
            "writes: {} acknowledged, {} without an answer; lost: {}",
            total.acked, total.unknown, self.load.findings.lost,
        );
        println!(
            "age of the oldest lost write: median {:.0} ms, worst {:.0} ms; longest flush {:.1} ms",
            ms(self.losses.percentile(0.5)),
            ms(self.losses.longest()),
            ms(self.flush),
        );
        println!(
            "back after a power loss: median {:.0} ms, worst {:.0} ms",
            ms(self.recoveries.percentile(0.5)),
            ms(self.recoveries.longest()),
        );
        for (word, times) in &self.kept {
            println!("the node said {times} times that it kept {word}");
        }
        self.load.findings.faults.iter().for_each(|fault| println!("fault: {fault}"));
        self.load.findings.holds()
    }
}

/// The word behind `kept` in the newest NodeBoot of a history.
fn kept_by(history: &str) -> Option<String> {
    let records: Vec<serde_json::Value> = serde_json::from_str(history).ok()?;
    let boots = records.iter().filter(|record| record["change"] == "NodeBoot");
    let last = boots.max_by_key(|record| record["version"].as_u64())?;
    let (_, word) = last["detail"].as_str()?.split_once(", kept ")?;
    Some(word.to_owned())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
