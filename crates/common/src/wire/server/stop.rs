//! The shutdown of a process.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process at once,
/// without a drain.
///
/// # Errors
/// The operating system refuses the signal handlers.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.is_cancelled() {
                tracing::warn!("server: received a second signal; the process ends at once");
                std::process::exit(130);
            }
            tracing::info!(
                "server: shutting down: running work is drained and no new work is accepted"
            );
            stop.cancel();
        }
    });
    Ok(token)
}
