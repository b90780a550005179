//! Processes as the kernel counts them.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// The kernel's clock ticks are a hundredth of a second in every interface to programs.
const TICK: Duration = Duration::from_millis(10);

/// One line of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy)]
struct Stat {
    own: Duration,
    /// Of its children that it has waited for.
    ended_children: Duration,
}

/// The processor time of a process and of all its children, those that ended included.
pub(crate) fn time_of_tree(pid: i32) -> Result<Duration> {
    let used = |stat: Stat| stat.own + stat.ended_children;
    let own = stat(pid).map(used).with_context(|| format!("process {pid} is gone"))?;
    Ok(own + children(pid)?.into_iter().filter_map(stat).map(used).sum::<Duration>())
}

/// The processor time of one process by itself.
pub(crate) fn time_of(pid: u32) -> Result<Duration> {
    let stat = i32::try_from(pid).ok().and_then(stat);
    Ok(stat.with_context(|| format!("process {pid} is gone"))?.own)
}

/// The child processes of `pid`. The kernel keeps them by thread; reading only these avoids a scan
/// of all processes, which would take processor time from the measurement.
pub(crate) fn children(pid: i32) -> Result<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        match fs::read_to_string(thread.join("children")) {
            Ok(list) => {
                children
                    .extend(list.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
            }
            Err(error) if thread.exists() => {
                return Err(error).context("the kernel counts no children");
            }
            // A thread may end between the two reads, and its children move to another one.
            Err(_) => {}
        }
    }
    Ok(children)
}

/// How many commands of an executor run: its other child is the guard over them.
pub(crate) fn commands(executor: i32) -> Result<usize> {
    Ok(children(executor)?.len().saturating_sub(1))
}

/// Resident memory in MiB.
pub(crate) fn resident_mib(pid: i32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .context("the kernel does not say how much memory a process uses")?;
    Ok(kib.parse::<f64>()? / 1024.0)
}

/// The time that all processors of the machine were busy since its start, for any process; time
/// taken by the host counts as busy.
pub(crate) fn machine_busy() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("/proc/stat is empty")?;
    let ticks: Vec<u32> =
        line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let busy = ticks.iter().take(8).enumerate().filter(|(index, _)| !matches!(index, 3 | 4));
    Ok(busy.map(|(_, &ticks)| TICK * ticks).sum())
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the brackets may contain anything; the text after the last bracket does not.
    let (_, rest) = text.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| words.get(index)?.parse::<u32>().ok();
    Some(Stat {
        own: TICK * (ticks(11)? + ticks(12)?),
        ended_children: TICK * (ticks(13)? + ticks(14)?),
    })
}
