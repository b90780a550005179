//! When a process is told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process at once, for
/// whoever has no time to wait for a drain.
///
/// # Errors
/// The operating system does not let the process listen for signals.
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
                tracing::warn!("a second signal ends the process at once");
                std::process::exit(130);
            }
            tracing::info!("stopping: work under way is ended, nothing new is taken up");
            stop.cancel();
        }
    });
    Ok(token)
}
