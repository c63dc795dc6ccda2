//! SIGINT and SIGTERM: the orderly end.

use tokio::signal::unix::{SignalKind, signal};

/// Completes at the first SIGINT or SIGTERM.
pub async fn asked_to_stop() -> std::io::Result<&'static str> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    })
}
