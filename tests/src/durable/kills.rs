//! kill -9 again and again under load: while it writes, saves and loads.
//!
//! Not a power loss (`cuts`): the kernel lives on, so in every mode all that was acknowledged must
//! be there. Invariant: after each kill everything is looked at before anything is written.

use super::Mode;
use super::load::{Load, Promise};
use crate::dice::Dice;
use crate::figures::Waits;
use crate::lives::Lives;
use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A start takes no longer.
const START: Duration = Duration::from_secs(120);
/// A life that is killed while it writes lasts so long, in ms.
const LIFE_MS: std::ops::Range<u64> = 20..700;
/// From the order to save to the kill, in ms.
const SAVING_MS: std::ops::Range<u64> = 0..120;
/// Kills in a row while it loads.
const MOST_LOADS: u64 = 3;

/// What is done.
pub struct Setup {
    /// The server.
    pub binary: PathBuf,
    /// Its log.
    pub mode: Mode,
    /// How often it is killed.
    pub kills: u32,
    /// Of all choices.
    pub seed: u64,
    /// Writers, each with a connection.
    pub writers: usize,
    /// Shelves of each writer.
    pub shelves: usize,
    /// Keys that only make loading longer.
    pub ballast: u32,
    /// Print each kill.
    pub is_told: bool,
}

/// What was seen.
pub struct Figures {
    /// Kills while it wrote, while it saved, while it loaded.
    pub kills: [u32; 3],
    /// Saves that ended before the kill.
    pub saves: u32,
    /// From a start after a kill to the first right answer.
    pub recoveries: Waits,
    /// The same after an orderly end.
    pub after_stop: Duration,
    /// Counts and faults.
    pub load: Load,
}

/// Kills, starts and looks; an error if the server does not come back.
pub fn run(setup: &Setup) -> io::Result<Figures> {
    let mut lives = Lives::new(&setup.binary, &setup.mode.args(), None)?;
    let tags = Load::tags(setup.writers * setup.shelves);
    let load = Load::new(setup.writers, tags, setup.ballast, setup.seed);
    let mut run = Run { figures: figures(load), dice: Dice::new(setup.seed ^ 0xD1CE), setup };
    lives.begin()?;
    wait_for_first(&mut run.figures.load, &mut lives)?;
    while run.killed() < setup.kills {
        run.one_kill(&mut lives)?;
        if !run.figures.load.findings.holds() && setup.mode != Mode::Memory {
            break;
        }
    }
    run.orderly_end(&mut lives)?;
    Ok(run.figures)
}

fn figures(load: Load) -> Figures {
    Figures {
        kills: [0; 3],
        saves: 0,
        recoveries: Waits::default(),
        after_stop: Duration::ZERO,
        load,
    }
}

/// The first life has no ballast yet that could be asked for.
fn wait_for_first(load: &mut Load, lives: &mut Lives) -> io::Result<()> {
    let until = lives.born() + START;
    loop {
        match load.write_ballast(&lives.address()) {
            Ok(()) => return Ok(()),
            Err(error) => {
                lives.check_alive()?;
                if Instant::now() > until {
                    return Err(error);
                }
            }
        }
        sleep(Duration::from_millis(20));
    }
}

struct Run<'a> {
    setup: &'a Setup,
    figures: Figures,
    dice: Dice,
}

impl Run<'_> {
    fn killed(&self) -> u32 {
        self.figures.kills.iter().sum()
    }

    fn one_kill(&mut self, lives: &mut Lives) -> io::Result<()> {
        let order = match self.dice.below(100) {
            0..50 => None,
            50..75 => Some("BGSAVE"),
            _ => Some("BGREWRITEAOF"),
        };
        let life = Duration::from_millis(self.dice.within(LIFE_MS));
        let saving = Duration::from_millis(self.dice.within(SAVING_MS));
        let ends = order.is_some() && self.dice.percent(40);
        let address = lives.address();
        self.figures.load.run(&address, |_| {
            sleep(life);
            if let Some(order) = order {
                // Refused while another save is under way, which is as good.
                lives.client()?.call(&[order])?;
                if ends {
                    lives.wait_until_saved()?;
                }
                sleep(saving);
            }
            lives.check_alive()?;
            lives.kill()
        })?;
        self.figures.saves += u32::from(ends);
        self.figures.kills[usize::from(order.is_some() && !ends)] += 1;
        self.come_back(lives, order.filter(|_| !ends))
    }

    /// Starts it, sometimes kills it while it loads, and looks at everything.
    fn come_back(&mut self, lives: &mut Lives, order: Option<&str>) -> io::Result<()> {
        let loads = if self.dice.percent(25) { 1 + self.dice.below(MOST_LOADS) } else { 0 };
        let usual = self.figures.recoveries.percentile(0.5).as_millis() as u64;
        for _ in 0..loads {
            lives.begin()?;
            sleep(Duration::from_millis(self.dice.below(usual + 10)));
            lives.check_alive()?;
            lives.kill()?;
            self.figures.kills[2] += 1;
        }
        lives.begin()?;
        let load = &mut self.figures.load;
        let took = load.wait_until_serving(lives, START)?;
        load.check(&lives.address(), Promise::All)?;
        self.figures.recoveries.add(took);
        if self.setup.is_told {
            let load = &self.figures.load;
            println!(
                "kill {}: {}{} writes acknowledged, back in {:.0} ms, {} faults",
                self.killed(),
                order.map(|order| format!("during {order}, ")).unwrap_or_default(),
                load.total.acked,
                took.as_secs_f64() * 1000.0,
                load.findings.count,
            );
        }
        Ok(())
    }

    fn orderly_end(&mut self, lives: &mut Lives) -> io::Result<()> {
        let address = lives.address();
        let load = &mut self.figures.load;
        load.run(&address, |dice| {
            sleep(Duration::from_millis(dice.within(LIFE_MS)));
            lives.shut_down()
        })?;
        lives.begin()?;
        self.figures.after_stop = load.wait_until_serving(lives, START)?;
        load.check(&address, Promise::All)?;
        load.check_ballast(&address)
    }
}

impl Figures {
    /// Prints all; whether it holds.
    pub fn report(&mut self) -> bool {
        let [writing, saving, loading] = self.kills;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!(
            "kills: {}: {writing} while it wrote ({} after a save), {saving} while it saved, \
             {loading} while it loaded",
            writing + saving + loading,
            self.saves,
        );
        let total = self.load.total;
        println!(
            "writes: {} acknowledged, {} refused, {} without an answer; lost: {}",
            total.acked, total.refused, total.unknown, self.load.findings.lost,
        );
        println!(
            "back after a kill: median {:.0} ms, worst {:.0} ms; after an orderly end {:.0} ms",
            ms(self.recoveries.percentile(0.5)),
            ms(self.recoveries.longest()),
            ms(self.after_stop),
        );
        let findings = &self.load.findings;
        findings.faults.iter().for_each(|fault| println!("fault: {fault}"));
        if findings.count as usize > findings.faults.len() {
            println!("{} faults in all", findings.count);
        }
        findings.holds()
    }
}
