//! What it was measured on.

use crate::stand::Stand;
use anyhow::Result;
use std::fs;
use std::process::Command;

/// One paragraph: processor, memory, kernel, versions, date.
pub(crate) async fn describe(stand: &Stand<'_>) -> Result<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism()?;
    let memory_mib = field(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal")
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or_default()
        / 1024;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Ok(format!(
        "{cores} cores of {}, {memory_mib} MiB, Linux {}, {}, Surety {} ({}), {}. Postgres, the \
         services and the client share the cores. {}.",
        field(&cpuinfo, "model name"),
        kernel.trim(),
        stand.postgres_version().await?,
        env!("CARGO_PKG_VERSION"),
        revision(),
        chrono::Utc::now().format("%Y-%m-%d"),
        stand.settings_shown(),
    ))
}

fn field(text: &str, name: &str) -> String {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

fn revision() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        Ok(_) | Err(_) => "no git revision".to_owned(),
    }
}
