//! The helper as a program of its own: it starts faster than a service, and test binaries cannot start themselves as the
//! helper.

use std::process::ExitCode;

fn main() -> ExitCode {
    surety_sandbox::run_if_invoked_with(surety_symbols::serve);
    eprintln!("surety-sandbox: services start this program; there is no use of it by hand");
    ExitCode::from(64)
}
