//! The threads of a process, and its limit of open files.

use super::open_files::raise_open_files;
#[cfg(feature = "config")]
use crate::config::ConfigError;
#[cfg(feature = "config")]
use crate::tls::TlsError;
#[cfg(feature = "config")]
use crate::wire::token::TokenError;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::runtime::Builder;

/// The time limit of work that still blocks a thread when everything else has ended, such as the read of a
/// large folder. The end of the process ends what is left.
const BLOCKING_END: Duration = Duration::from_secs(2);

/// Carries out the work of a process on a runtime of its own, with the limit of open files raised. By default
/// it uses half of the processors; the others are for the database or for an executor's commands. More
/// threads cost more in cache misses than they gain.
///
/// Work that blocks a thread delays the return by at most two seconds.
///
/// # Errors
/// The system starts no threads, or does not report its limit of open files.
pub fn block_on<T>(threads: Option<u32>, work: impl Future<Output = T>) -> io::Result<T> {
    raise_open_files()?;
    let wanted = threads.and_then(|threads| usize::try_from(threads).ok());
    let half = || available_parallelism().map_or(1, |processors| processors.get() / 2);
    let threads = wanted.unwrap_or_else(half).max(1);
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let ended = runtime.block_on(work);
    runtime.shutdown_timeout(BLOCKING_END);
    Ok(ended)
}

/// Carries out the work of a service's process, as [`block_on`]. A failure is one line on standard error, in the form of
/// the command line: `setting_invalid` for a setting, a certificate or a token, else `service_ended`.
#[cfg(feature = "config")]
pub fn run_service(
    threads: Option<u32>,
    work: impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>>,
) -> ExitCode {
    let Err(error) = block_on(threads, work).map_err(Into::into).flatten() else {
        return ExitCode::SUCCESS;
    };
    let code = match is_of_setting(error.as_ref()) {
        true => "setting_invalid",
        false => "service_ended",
    };
    // Where standard error is closed, the exit code is all that can be said.
    writeln!(io::stderr(), "error[{code}]: {}", with_causes(error.as_ref())).ok();
    ExitCode::FAILURE
}

#[cfg(feature = "config")]
fn is_of_setting(error: &(dyn Error + 'static)) -> bool {
    error.is::<ConfigError>()
        || error.is::<TlsError>()
        || error.is::<TokenError>()
        || error.source().is_some_and(is_of_setting)
}

/// The text of an error, with those of its causes that it does not say itself.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn work_that_blocks_a_thread_does_not_hold_the_end_up() {
        let (release, held) = channel::<()>();
        let blocked = async {
            let (begun, has_begun) = channel();
            tokio::task::spawn_blocking(move || {
                begun.send(()).ok();
                // It ends with this test.
                held.recv().ok();
            });
            has_begun.recv().is_ok()
        };
        assert!(block_on(Some(1), blocked).unwrap());
        drop(release);
    }
}
