//! Where the log goes: standard output or `logfile`, filtered by `loglevel` or RUST_LOG.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock};

use tracing_subscriber::EnvFilter;

use crate::config::Config;

/// Changes the filter of the log that was started.
type SetFilter = Box<dyn Fn(EnvFilter) + Send + Sync>;

static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();

/// What openraft says when no operator asked for more: errors, but not those of its messages, each
/// of which fails several times a second while one node is away. That a node is silent and who
/// leads is said once (`control::herald`), and the log's end by what ends the node.
const RAFT: &str = "openraft=error,openraft::replication=off,openraft::core::raft_core=off";

/// Redis's levels in tracing's words.
fn filter(loglevel: &str) -> EnvFilter {
    EnvFilter::new(match loglevel {
        "debug" => "debug".to_owned(),
        "verbose" => "info".to_owned(),
        "notice" => format!("info,{RAFT}"),
        _ => format!("warn,{RAFT}"),
    })
}

/// Starts logging. A second call changes nothing. The error names a file that cannot be opened.
pub fn start(config: &Config) -> Result<(), String> {
    let level = config.text("loglevel");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| filter(&level));
    let log = tracing_subscriber::fmt().with_target(false).with_env_filter(filter);
    let path = config.text("logfile");
    if path.is_empty() {
        // No colours where nobody sees them: in a pipe, in a node's log file.
        let log = log.with_ansi(std::io::stdout().is_terminal()).with_filter_reloading();
        let handle = log.reload_handle();
        let _ = SET_FILTER.set(Box::new(move |filter| drop(handle.reload(filter))));
        let _ = log.try_init();
        return Ok(());
    }
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.map_err(|error| format!("option 'logfile': {path}: {error}"))?;
    let log = log.with_ansi(false).with_writer(Mutex::new(file)).with_filter_reloading();
    let handle = log.reload_handle();
    let _ = SET_FILTER.set(Box::new(move |filter| drop(handle.reload(filter))));
    let _ = log.try_init();
    Ok(())
}

/// CONFIG SET loglevel.
pub fn set_level(loglevel: &str) {
    if let Some(set) = SET_FILTER.get() {
        set(filter(loglevel));
    }
}
