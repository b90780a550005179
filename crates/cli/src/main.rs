//! `surety`: the command line.

use std::process::ExitCode;

/// Runs allocate and free many small texts concurrently on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    surety_sandbox::run_if_invoked_with(surety_symbols::serve);
    surety_cli::commands::run(std::env::args_os()).into()
}
