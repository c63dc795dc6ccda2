//! Where the demo touches the world beside its sockets: clock, pauses, ports, folders, processes.
//!
//! Invariant: every process started and every folder made here ends with its `ThrowAway`, and
//! only those; no wait is without an end.

#![allow(clippy::disallowed_methods, reason = "this is the demo's place for them")]

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use slots::Endpoint;

use super::plan::NODES_AFTER;

/// Pause between two looks at what is waited for.
const POLL: Duration = Duration::from_millis(20);
/// A node listens for other nodes on its port plus this; `slotd` chooses so by itself.
const BUS_OFFSET: u16 = 10_000;
/// Above it there is no room for the port of other nodes.
const HIGHEST_PORT: u16 = u16::MAX - BUS_OFFSET;
/// Tries for each port: most that the system offers will do.
const PORT_TRIES: usize = 200;
/// The variable that names the server's program.
const SLOTD_VARIABLE: &str = "SLOTD_BIN";
/// What a node printed last, told when something does not come.
const LAST_LINES: usize = 5;

/// A moment that a wait ends at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub(super) fn after(time: Duration) -> Deadline {
        Deadline(Instant::now() + time)
    }

    /// Is it over?
    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Waits for it.
    pub(super) fn sleep(self) {
        std::thread::sleep(self.0.saturating_duration_since(Instant::now()));
    }
}

/// Looks until it is there. The error of the last look is told if it does not come in time.
pub(super) fn wait<T>(
    at_most: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, String>,
) -> io::Result<T> {
    let deadline = Deadline::after(at_most);
    loop {
        let why = match look() {
            Ok(there) => return Ok(there),
            Err(why) => why,
        };
        if deadline.is_over() {
            let seconds = at_most.as_secs_f64();
            let text = format!("{what}: not within {seconds:.1} s: {why}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Deadline::after(POLL).sleep();
    }
}

/// The server's program: as given, else `$SLOTD_BIN`, else `slotd` beside this program.
pub(super) fn slotd(given: Option<&Path>) -> io::Result<PathBuf> {
    let named =
        given.map(Path::to_owned).or_else(|| std::env::var_os(SLOTD_VARIABLE).map(Into::into));
    let own = std::env::current_exe()?;
    // Programs lie side by side; tests one folder below.
    let beside = || own.ancestors().skip(1).take(2).map(|dir| dir.join("slotd"));
    let found = match named {
        Some(path) => Some(path).filter(|path| path.is_file()),
        None => beside().find(|path| path.is_file()),
    };
    found.ok_or_else(|| {
        let text = "no slotd program found: name it by --slotd PATH or SLOTD_BIN, or put it \
                    beside slotctl";
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// The nodes of a demo.
pub(super) trait Nodes {
    /// Starts the next node. It may not be ready yet.
    fn start_next(&mut self) -> io::Result<()>;
    /// Where the started nodes serve clients, in the order they were started.
    fn endpoints(&self) -> &[Endpoint];
    /// What a node has printed so far.
    fn printed(&self, node: usize) -> String;
}

/// A cluster of processes of the demo's own, on free ports of this machine.
pub(super) struct ThrowAway {
    slotd: PathBuf,
    dir: PathBuf,
    /// Held until their node starts, so that no two nodes get one.
    free: Vec<TcpListener>,
    endpoints: Vec<Endpoint>,
    children: Vec<Child>,
}

impl ThrowAway {
    /// A folder and ports for four nodes; none is started.
    pub(super) fn new(slotd: PathBuf) -> io::Result<ThrowAway> {
        let mut free = Vec::new();
        for _ in 0..NODES_AFTER {
            free.push(free_port()?);
        }
        Ok(ThrowAway {
            slotd,
            dir: fresh_dir()?,
            free,
            endpoints: Vec::new(),
            children: Vec::new(),
        })
    }
}

impl Nodes for ThrowAway {
    fn start_next(&mut self) -> io::Result<()> {
        let at = self.endpoints.len();
        let port = self.free.pop().ok_or(io::ErrorKind::AddrNotAvailable)?.local_addr()?.port();
        let dir = self.dir.join(node_name(at));
        fs::create_dir(&dir)?;
        let mut command = Command::new(&self.slotd);
        command.args(["--cluster-enabled", "yes", "--name", &node_name(at)]);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        // Slots that go over have no owner for a moment: the others are served all the while.
        command.args(["--cluster-require-full-coverage", "no"]).arg("--dir").arg(&dir);
        if let Some(first) = self.endpoints.first() {
            command.args(["--join", &first.to_string()]);
        }
        command.stdin(Stdio::null());
        command.stdout(File::create(dir.join("stdout"))?);
        command.stderr(File::create(dir.join("stderr"))?);
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.slotd.display()))
        })?;
        self.children.push(child);
        self.endpoints.push(Endpoint::new("127.0.0.1", port));
        Ok(())
    }

    fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    fn printed(&self, node: usize) -> String {
        let dir = self.dir.join(node_name(node));
        let read = |name| fs::read(dir.join(name)).unwrap_or_default();
        ["stdout", "stderr"].map(|name| String::from_utf8_lossy(&read(name)).into_owned()).concat()
    }
}

impl Drop for ThrowAway {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Both fail only when it is already gone, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// `node-a`, `node-b` and so on.
pub(super) fn node_name(at: usize) -> String {
    let letter = u8::try_from(at).ok().and_then(|at| b'a'.checked_add(at)).map_or('?', char::from);
    format!("node-{letter}")
}

/// The last lines of all nodes, for an error.
pub(super) fn last_words(nodes: &dyn Nodes) -> String {
    let said = (0..nodes.endpoints().len()).map(|at| {
        let text = nodes.printed(at);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
        format!("\n{} printed last:\n  {last}", node_name(at))
    });
    said.collect()
}

fn free_port() -> io::Result<TcpListener> {
    for _ in 0..PORT_TRIES {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        if port <= HIGHEST_PORT && TcpListener::bind(("127.0.0.1", port + BUS_OFFSET)).is_ok() {
            return Ok(listener);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "no free port found on 127.0.0.1"))
}

/// A new folder that nobody else has.
fn fresh_dir() -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("slotctl-demo-{}-{number}", std::process::id()));
    fs::create_dir(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_is_told_with_the_last_reason() {
        let mut looks = 0;
        let error = wait(Duration::from_millis(30), "all serve", || {
            looks += 1;
            Err::<(), _>(format!("look {looks}"))
        });
        let text = error.expect_err("it never comes").to_string();
        assert!(text.starts_with("all serve: not within 0.0 s: look "), "{text}");
    }

    #[test]
    fn a_program_that_is_not_there_is_told_before_anything_starts() {
        let error = slotd(Some(Path::new("no/such/slotd"))).expect_err("it is not there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_throw_away_cluster_leaves_nothing_behind() {
        let mut nodes = ThrowAway::new("sleep".into()).expect("ports and a folder");
        let dir = nodes.dir.clone();
        // A program that ends at once: its arguments are none of its own.
        nodes.start_next().expect("it starts");
        assert!(dir.join("node-a").join("stdout").is_file());
        assert_eq!(nodes.endpoints().len(), 1);
        drop(nodes);
        assert!(!dir.exists());
    }
}
