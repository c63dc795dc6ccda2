//! A slotd process of a test or probe: started on a free port, ended with its owner.
//!
//! Not a cluster: `slotd local` starts one itself. The binary is `$SLOTD_BIN`, else the one built
//! beside the running test. Invariant: a started process never outlives its `Node`, and only that
//! process is ever signalled.

use crate::resp::{Client, Value};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A server answers PING this long after its start, or the test fails.
pub const START_DEADLINE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(10);

/// A running slotd.
pub struct Node {
    child: Child,
    address: SocketAddr,
    dir: PathBuf,
}

impl Node {
    /// Starts the built slotd with these arguments behind `--port`, `--bind` and `--dir`. It has
    /// its place in its cluster then, and its slots unless it starts without.
    pub fn start(args: &[&str]) -> io::Result<Self> {
        Self::start_binary(&binary()?, args)
    }

    /// As [`Node::start`], with a binary of one's own.
    pub fn start_binary(binary: &Path, args: &[&str]) -> io::Result<Self> {
        let port = free_port()?;
        let dir = fresh_dir()?;
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(&dir)
            .args(args)
            .stdin(Stdio::null())
            .stdout(fs::File::create(dir.join("stdout"))?)
            .stderr(fs::File::create(dir.join("stderr"))?)
            .spawn()
            .map_err(|error| io::Error::other(format!("{}: {error}", binary.display())))?;
        let mut node = Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)), dir };
        node.wait_until_it_answers(args)?;
        Ok(node)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its data folder; `stdout` and `stderr` in it hold what it printed.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A new connection to it.
    pub fn client(&self) -> io::Result<Client> {
        Client::connect(self.address)
    }

    /// Waits until it takes a write: it owns the slot and the cluster is up.
    pub fn wait_until_served(&self, key: &str) -> io::Result<()> {
        let mut client = self.client()?;
        let until = Instant::now() + START_DEADLINE;
        loop {
            let reply = client.call(&["SET", key, "x"])?;
            if reply == Value::ok() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(io::Error::other(format!("SET {key} is not served: {reply:?}")));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a signal by name: `TERM`, `STOP`.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        // The shell's own `kill`: the program of that name is not everywhere.
        let line = format!("kill -{name} {}", self.pid());
        match Command::new("sh").args(["-c", &line]).status()?.success() {
            true => Ok(()),
            false => Err(io::Error::other(line)),
        }
    }

    /// Waits for its end.
    pub fn wait_for_end(&mut self, at_most: Duration) -> io::Result<ExitStatus> {
        let until = Instant::now() + at_most;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(POLL);
        }
    }

    fn wait_until_it_answers(&mut self, args: &[&str]) -> io::Result<()> {
        let until = Instant::now() + START_DEADLINE;
        loop {
            if self.is_ready(args).unwrap_or(false) {
                return Ok(());
            }
            if !self.is_running() || Instant::now() > until {
                let said = fs::read_to_string(self.dir.join("stderr")).unwrap_or_default();
                return Err(io::Error::other(format!("slotd did not start: {}", said.trim())));
            }
            std::thread::sleep(POLL);
        }
    }

    fn is_ready(&self, args: &[&str]) -> io::Result<bool> {
        let mut client = self.client()?;
        client.wait_at_most(Duration::from_secs(1));
        if let Some(at) = args.iter().position(|arg| *arg == "--requirepass") {
            client.call(&["AUTH", args[at + 1]])?;
        }
        let reply = client.call(&["EXISTS", "x"])?;
        let is_empty = args.iter().any(|arg| ["--cluster-enabled", "--join"].contains(arg));
        Ok(match is_empty {
            true => reply.is_error("CLUSTERDOWN Hash slot not served") || reply == Value::Int(0),
            false => !reply.is_error("LOADING ") && !reply.is_error("CLUSTERDOWN "),
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail only when it is already gone, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The slotd binary: `$SLOTD_BIN`, else `slotd` in the target folder of this program.
pub fn binary() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("SLOTD_BIN") {
        return Ok(path.into());
    }
    // Programs lie in target/PROFILE, tests in target/PROFILE/deps.
    let own = std::env::current_exe()?;
    let beside = own.ancestors().skip(1).take(2).map(|dir| dir.join("slotd"));
    beside.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        io::Error::other("no slotd binary: run `cargo build -p slotd`, or set SLOTD_BIN")
    })
}

/// A port nobody listened on a moment ago, and neither on the port for other nodes above it. Both
/// lie below the ports that the kernel gives to outgoing connections, which could take one
/// between this look and the start of a node.
pub fn free_port() -> io::Result<u16> {
    free_ports(1)
}

/// The first of `count` ports in a row that are free as by [`free_port`].
pub fn free_ports(count: u16) -> io::Result<u16> {
    /// Lowest and highest first port; 10000 above it 32767 must not be passed.
    const RANGE: std::ops::Range<u16> = 12_000..22_700;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..2000 {
        // Other test programs run at the same time: each begins at a place of its own, and within
        // one no port is given out twice before all others were.
        let turn = NEXT.fetch_add(u32::from(count), Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(2_654_435_761).wrapping_add(turn);
        let first = RANGE.start + (place % u32::from(RANGE.end - RANGE.start)) as u16;
        let mut ports = first..first + count;
        if ports.end <= RANGE.end && ports.all(|port| is_free(port) && is_free(port + 10_000)) {
            return Ok(first);
        }
    }
    Err(io::Error::other(format!("no {count} free ports in a row found")))
}

/// A new empty folder for one process. Its owner removes it.
pub fn fresh_dir() -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("slotd-test-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir)?;
    Ok(dir)
}
