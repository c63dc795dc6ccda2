//! Where the log goes: stdout, filtered by `loglevel` or RUST_LOG.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::Config;

/// Starts logging. A second call changes nothing.
pub fn start(config: &Config) {
    let level = match config.text("loglevel").as_str() {
        "debug" => "debug",
        "verbose" => "info",
        "notice" => "info",
        "nothing" => "off",
        _ => "warn",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // No colours in a file.
    let _ = log.with_ansi(std::io::stdout().is_terminal()).try_init();
}
