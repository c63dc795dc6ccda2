//! `slotd local`: a cluster of several nodes on this machine, each its own process, started,
//! watched, started again and ended by this one.
//!
//! Not a way to run in production, and no part of a node: the nodes know nothing of it. They
//! join the first one and are given slots just as an operator would do it (`form`).
//!
//! Invariant: no node outlives this process, however it ends (`process`).

mod form;
mod layout;
mod options;
mod process;
mod watch;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use form::Formed;
use layout::{Layout, NodePlan};
use options::{Options, Parsed};
use process::NodeProcess;
use watch::{Stop, StopBell};

/// Bad options.
const EXIT_USAGE: u8 = 2;
/// The cluster did not start.
const EXIT_START: u8 = 1;

/// Runs `slotd local` with the words after `local`.
///
/// Exit codes: 0 = ended by a signal after all nodes had started, 1 = the cluster did not start
/// (no node is left running), 2 = bad options.
pub fn main(args: &[OsString]) -> ExitCode {
    let options = match options::parse(args) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Help) => {
            say(options::HELP.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            complain(&error);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    // One thread: the kernel ends a node when the thread that started it ends (`process`).
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(|error| error.to_string()).and_then(|r| r.block_on(run(&options)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(EXIT_START)
        }
    }
}

async fn run(options: &Options) -> Result<(), String> {
    let layout = Layout::prepare(options)?;
    layout.nodes.iter().try_for_each(|node| check_port(node.port))?;
    let mut signals = Signals::listen().map_err(|e| format!("cannot listen for signals: {e}"))?;
    let mut processes = Vec::new();
    let started = tokio::select! {
        started = start_all(options, &layout, &mut processes) => started.map(Some),
        signal = signals.next() => {
            say(&format!("{signal}: stopping before all nodes have started"));
            Ok(None)
        }
    };
    let formed = match started {
        Ok(Some(formed)) => formed,
        other => {
            stop_all(processes).await;
            return other.map(|_| ());
        }
    };
    announce(&layout, &processes, &formed);
    let bell = Arc::new(StopBell::default());
    let mut watchers = JoinSet::new();
    for process in processes {
        watchers.spawn(watch::watch(process, bell.clone()));
    }
    let signal = signals.next().await;
    say(&format!("{signal}: stopping"));
    bell.ring(Stop::Orderly);
    loop {
        tokio::select! {
            watcher = watchers.join_next() => if watcher.is_none() { break },
            _ = signals.next() => bell.ring(Stop::AtOnce),
        }
    }
    say("stopped");
    Ok(())
}

/// A server that already listens would be found out late and by a node's log only.
fn check_port(port: u16) -> Result<(), String> {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            Err(format!("port {port} is in use: another server listens there (see --port)"))
        }
        Err(e) => Err(format!("cannot listen on port {port}: {e}")),
    }
}

async fn start_all(
    options: &Options,
    layout: &Layout,
    processes: &mut Vec<NodeProcess>,
) -> Result<Formed, String> {
    for node in &layout.nodes {
        processes.push(NodeProcess::start(node)?);
    }
    for process in processes {
        process.ready().await?;
    }
    let ports: Vec<u16> = layout.nodes.iter().map(|node| node.port).collect();
    form::form(&ports, &options.password()).await
}

async fn stop_all(processes: Vec<NodeProcess>) {
    let mut stops: JoinSet<()> = processes.into_iter().map(NodeProcess::stop).collect();
    while stops.join_next().await.is_some() {}
}

fn announce(layout: &Layout, processes: &[NodeProcess], formed: &Formed) {
    say(&format!("data and logs are in {}", layout.dir.display()));
    for process in processes {
        let NodePlan { name, port, .. } = process.plan();
        let slots = formed.slots_of(*port);
        let (pid, log) = (process.pid(), process.plan().log());
        say(&format!("{name}  127.0.0.1:{port}  slots {slots}  pid {pid}  log {}", log.display()));
    }
    let port = layout.nodes.first().map_or(options::DEFAULT_PORT, |node| node.port);
    say(&format!("try: redis-cli -c -p {port} set foo bar"));
    say("ready");
}

/// The signals that end the cluster: Ctrl-C, `kill`, and the end of the terminal.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}

/// A line on stdout. The terminal may be gone: then nobody reads it, and that is no error.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// A line on stderr.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "slotd local: {line}");
}
