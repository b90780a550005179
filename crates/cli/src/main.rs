//! `surety`: one binary for people.

use std::process::ExitCode;

/// Runs make and drop many small texts at the same time on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    surety_cli::commands::run(std::env::args_os()).into()
}
