//! One node's process: started, asked whether it serves, ended.
//!
//! Invariant: the process ends with its `NodeProcess` (`kill_on_drop`), and when this process is
//! killed in a way that runs no code (`PR_SET_PDEATHSIG`). Only this very child is signalled.

#![allow(unsafe_code, reason = "pre_exec, prctl and kill have no safe wrappers in std")]

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::layout::NodePlan;

/// How long a node may take until it answers.
const START_DEADLINE: Duration = Duration::from_secs(15);
/// Pause between two questions.
const POLL: Duration = Duration::from_millis(20);
/// How long one answer may take.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1);
/// How long a node may take to end in good order.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// A running node.
pub(super) struct NodeProcess {
    plan: NodePlan,
    child: Child,
    pid: u32,
}

impl NodeProcess {
    /// Starts the node with the program that runs now. The error is one line.
    pub fn start(plan: &NodePlan) -> Result<NodeProcess, String> {
        let failed = |error: io::Error| format!("{} cannot be started: {error}", plan.name);
        let mut command = command(plan).map_err(failed)?;
        let child = command.spawn().map_err(failed)?;
        let pid = child.id().unwrap_or(0);
        Ok(NodeProcess { plan: plan.clone(), child, pid })
    }

    /// What it was started from.
    pub fn plan(&self) -> &NodePlan {
        &self.plan
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Completes when the node answers PING. The error, one line: it ended, or it took too long.
    pub async fn ready(&mut self) -> Result<(), String> {
        let (name, log) = (self.plan.name.clone(), self.plan.log());
        let port = self.plan.port;
        let answers = async {
            while !is_serving(port).await {
                sleep(POLL).await;
            }
        };
        tokio::select! {
            status = self.child.wait() => {
                let how = status.map_or_else(|e| e.to_string(), how_it_ended);
                let last = std::fs::read_to_string(&log).unwrap_or_default();
                let last = last.lines().last().unwrap_or("nothing").trim().to_owned();
                Err(format!("{name} ended ({how}) before it served; its log {} says: {last}",
                    log.display()))
            }
            answered = timeout(START_DEADLINE, answers) => answered.map_err(|_| {
                let seconds = START_DEADLINE.as_secs();
                format!("{name} did not answer within {seconds} s; see its log {}", log.display())
            }),
        }
    }

    /// Completes when it has ended, however that came.
    pub async fn ended(&mut self) -> String {
        self.child.wait().await.map_or_else(|error| error.to_string(), how_it_ended)
    }

    /// Ends it: in good order, and after a while without.
    pub async fn stop(mut self) {
        self.ask_to_stop();
        if timeout(STOP_DEADLINE, self.child.wait()).await.is_err() {
            self.kill().await;
        }
    }

    /// Ends it at once.
    pub async fn kill(&mut self) {
        // It fails only when the process is gone, which is what is wanted.
        let _ = self.child.kill().await;
    }

    fn ask_to_stop(&self) {
        // `None` once it was waited for: the id may be another process's by then.
        if let Some(pid) = self.child.id() {
            // SAFETY: a system call without pointers; the child is not yet waited for, so the id
            // is still its own.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) };
        }
    }
}

fn command(plan: &NodePlan) -> io::Result<Command> {
    let log = OpenOptions::new().create(true).append(true).open(plan.log())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--port", &plan.port.to_string(), "--name", &plan.name, "--dir"]);
    command.arg(&plan.dir).args(["--cluster-enabled", "yes"]);
    if let Some(port) = plan.joins {
        command.args(["--join", &format!("127.0.0.1:{port}")]);
    }
    // What is passed on may say otherwise.
    command.args(["--appendonly", "yes"]).args(&plan.passed_on);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // A group of its own: Ctrl-C reaches this process alone, which ends the nodes in order.
    command.process_group(0).kill_on_drop(true);
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are made (prctl, getppid) and
    // nothing is allocated: `from_raw_os_error` holds a number.
    unsafe {
        command.pre_exec(move || {
            // The kernel sends it when the thread that forked ends, that is with this process:
            // the runtime has one thread.
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have ended before the line above.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
    Ok(command)
}

/// Does a server on this port answer PING? One that wants a password answers as well.
async fn is_serving(port: u16) -> bool {
    let answer = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).await?;
        Ok::<_, io::Error>(reply == *b"+PONG\r\n" || reply == *b"-NOAUTH")
    };
    matches!(timeout(ANSWER_DEADLINE, answer).await, Ok(Ok(true)))
}

/// `exit status 1` or `signal 9, SIGKILL`.
fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => match signal_name(signal) {
            Some(name) => format!("signal {signal}, {name}"),
            None => format!("signal {signal}"),
        },
        (None, None) => status.to_string(),
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_by_status_or_signal() {
        assert_eq!(how_it_ended(ExitStatus::from_raw(1 << 8)), "exit status 1");
        assert_eq!(how_it_ended(ExitStatus::from_raw(9)), "signal 9, SIGKILL");
        assert_eq!(how_it_ended(ExitStatus::from_raw(31)), "signal 31");
    }
}
