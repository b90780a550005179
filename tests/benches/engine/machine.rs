//! A description of the machine.

use crate::stand::Stand;
use anyhow::Result;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::process::Command;
use std::time::Instant;

/// Repetitions of the disk test.
const SYNCS: usize = 51;
/// The bytes of the memory test: more than a core's own cache, less than the shared one.
const MEMORY: usize = 8 << 20;
/// Bytes of a cache line, and words of it.
const LINE: usize = 64;
const WORDS: usize = LINE / size_of::<usize>();
const LOADS: u32 = 1_000_000;

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
        "{cores} cores of {}, {memory_mib} MiB, Linux {}, {}, Surety {}, {}. Postgres, the \
         services and the client share the cores. {}.",
        field(&cpuinfo, "model name"),
        kernel.trim(),
        stand.postgres_version().await?,
        version(),
        chrono::Utc::now().format("%Y-%m-%d"),
        stand.settings_shown(),
    ))
}

/// The version, and the commit it was built from.
pub(crate) fn version() -> String {
    format!("{} ({})", env!("CARGO_PKG_VERSION"), revision())
}

/// The time to write 8 KiB durably on the database's disk, the median of many, in milliseconds.
/// Every commit takes at least this long.
pub(crate) fn sync_ms() -> Result<f64> {
    let mut file = tempfile::tempfile()?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        file.seek(SeekFrom::Start(0))?;
        let begun = Instant::now();
        file.write_all(&[1; 8192])?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    times.sort();
    Ok(times.get(SYNCS / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0))
}

/// The latency of a load from outside a core's own cache, in nanoseconds: dependent loads through 8
/// MiB in random order. Other tenants of the machine change it between 20 and 160 within seconds,
/// and with it all other figures.
pub(crate) fn load_ns() -> f64 {
    let lines = MEMORY / LINE;
    let mut next: Vec<usize> = (0..lines).collect();
    // Sattolo's shuffle makes one cycle. The constants are Knuth's, for his MMIX.
    let mut random: u64 = 1;
    for last in (1..lines).rev() {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        next.swap(last, usize::try_from(random >> 33).unwrap_or_default() % last);
    }
    let mut memory = vec![0_usize; MEMORY / size_of::<usize>()];
    for (line, next) in next.into_iter().enumerate() {
        memory[line * WORDS] = next * WORDS;
    }
    let begun = Instant::now();
    let end = (0..LOADS).fold(0, |place, _| memory[place]);
    std::hint::black_box(end);
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(LOADS)
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
