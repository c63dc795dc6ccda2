//! One server on one folder and one port, in several lives: killed, stopped and started again.
//!
//! Not a cluster (`fleet`). The program may be any that takes Redis's options, so that the tools
//! are tried on more than slotd. Invariant: the process of the last life ends with its owner.

use crate::process::{free_port, fresh_dir};
use crate::resp::Client;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An orderly end takes no longer, or it counts as none.
const STOP: Duration = Duration::from_secs(30);
/// A save takes no longer.
const SAVED: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// The server.
pub struct Lives {
    binary: PathBuf,
    args: Vec<String>,
    env: Vec<(OsString, OsString)>,
    port: u16,
    /// Holds `data` and what was printed.
    home: PathBuf,
    child: Option<Child>,
    born: Instant,
    lives: u32,
}

impl Lives {
    /// A server that is not started yet, in a new folder below `parent` (the usual one if none).
    pub fn new(binary: &Path, args: &[&str], parent: Option<&Path>) -> io::Result<Self> {
        let home = match parent {
            None => fresh_dir()?,
            Some(parent) => parent.join(fresh_dir()?.file_name().unwrap_or_default()),
        };
        fs::create_dir_all(home.join("data"))?;
        Ok(Self {
            binary: binary.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: Vec::new(),
            port: free_port()?,
            home,
            child: None,
            born: Instant::now(),
            lives: 0,
        })
    }

    /// One more variable of the environment of the lives from now on.
    pub fn set_env(&mut self, name: &str, value: impl Into<OsString>) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.into(), value.into()));
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Where what belongs to this server, but is not its data, may lie.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// How many lives there were.
    pub fn count(&self) -> u32 {
        self.lives
    }

    /// When the present life began.
    pub fn born(&self) -> Instant {
        self.born
    }

    /// A new connection.
    pub fn client(&self) -> io::Result<Client> {
        Client::connect(self.address())
    }

    /// Begins the next life.
    pub fn begin(&mut self) -> io::Result<()> {
        let log = |name: &str| {
            fs::OpenOptions::new().create(true).append(true).open(self.home.join(name))
        };
        let child = Command::new(&self.binary)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(self.data())
            .args(&self.args)
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log("stdout")?)
            .stderr(log("stderr")?)
            .spawn()
            .map_err(|error| io::Error::other(format!("{}: {error}", self.binary.display())))?;
        self.child = Some(child);
        self.born = Instant::now();
        self.lives += 1;
        Ok(())
    }

    /// Its process id, if it lives.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it at once, as a crash does.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// SHUTDOWN, as an operator stops it; how long that took.
    pub fn shut_down(&mut self) -> io::Result<Duration> {
        let start = Instant::now();
        let mut client = self.client()?;
        client.wait_at_most(STOP);
        // The connection closes, or an error says why it does not stop.
        if let Ok(said) = client.call(&["SHUTDOWN"]) {
            return Err(io::Error::other(format!("SHUTDOWN: {said:?}")));
        }
        let mut child = self.child.take().ok_or_else(|| io::Error::other("it does not live"))?;
        loop {
            match child.try_wait()? {
                Some(status) if status.success() => return Ok(start.elapsed()),
                Some(status) => return Err(io::Error::other(format!("SHUTDOWN: {status}"))),
                None if start.elapsed() > STOP => {
                    self.child = Some(child);
                    return Err(io::Error::other(format!("SHUTDOWN: not within {STOP:?}")));
                }
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// Waits until no save is under way, neither by BGSAVE nor by BGREWRITEAOF.
    pub fn wait_until_saved(&self) -> io::Result<()> {
        let start = Instant::now();
        let mut client = self.client()?;
        loop {
            let said = client.call(&["INFO", "persistence"])?;
            let text = said.text().unwrap_or_default();
            let busy = ["rdb_bgsave_in_progress:1", "aof_rewrite_in_progress:1"];
            if !busy.iter().any(|line| text.contains(line)) {
                return Ok(());
            }
            if start.elapsed() > SAVED {
                return Err(io::Error::other(format!("no save ended within {SAVED:?}: {text}")));
            }
            std::thread::sleep(POLL);
        }
    }

    /// An error with its last words if the present life ended by itself.
    pub fn check_alive(&mut self) -> io::Result<()> {
        match self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
            None => Ok(()),
            Some(status) => {
                let words = self.last_words();
                Err(io::Error::other(format!("life {} ended: {status}\n{words}", self.lives)))
            }
        }
    }

    /// Everything it printed, in all its lives.
    pub fn printed(&self) -> String {
        let read = |name| fs::read_to_string(self.home.join(name)).unwrap_or_default();
        ["stdout", "stderr"].map(read).concat()
    }

    /// The last lines it printed.
    pub fn last_words(&self) -> String {
        let text = self.printed();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        let _ = self.kill();
        match std::env::var_os("SLOTD_KEEP_DIRS") {
            None => drop(fs::remove_dir_all(&self.home)),
            Some(_) => println!("kept: {}", self.home.display()),
        }
    }
}
