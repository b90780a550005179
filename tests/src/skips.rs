//! Tests that were skipped, because what they need is not on this machine.

use anyhow::Result;
use std::io::Write;

/// Names a skipped test in the file that SURETY_TEST_SKIPS names, if it is set.
///
/// # Errors
/// The file cannot be written.
pub fn note(what: &str, why: &str) -> Result<()> {
    if let Some(file) = std::env::var_os("SURETY_TEST_SKIPS") {
        let mut skips = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
        writeln!(skips, "{what}: {why}")?;
    }
    Ok(())
}
