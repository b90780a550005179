//! Processes as the kernel counts them.

use anyhow::{Context, Result};
use std::collections::HashSet;
use std::fs;
use std::time::Duration;

/// The kernel's clock ticks are a hundredth of a second in every interface to programs.
const TICK: Duration = Duration::from_millis(10);

/// One line of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy)]
struct Stat {
    parent: i32,
    own: Duration,
    /// Of its children that it has waited for.
    ended_children: Duration,
}

/// The processor time of a process and of all its children, those that ended included.
pub(crate) fn time_of_tree(pid: i32) -> Result<Duration> {
    let used = |stat: Stat| stat.own + stat.ended_children;
    let own = stat(pid).map(used).with_context(|| format!("process {pid} is gone"))?;
    Ok(own + children(pid).into_iter().filter_map(stat).map(used).sum::<Duration>())
}

/// The processor time of one process by itself.
pub(crate) fn time_of(pid: u32) -> Result<Duration> {
    let stat = i32::try_from(pid).ok().and_then(stat);
    Ok(stat.with_context(|| format!("process {pid} is gone"))?.own)
}

/// The processes whose parent is `pid`.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    all().filter(|&candidate| stat(candidate).is_some_and(|stat| stat.parent == pid)).collect()
}

fn all() -> impl Iterator<Item = i32> {
    let folder = fs::read_dir("/proc").into_iter().flatten();
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Counts the processes that one starts. Each process of the machine is looked at once, because
/// looking at thousands of them again and again takes the processor from those that start them.
pub(crate) struct Starts {
    parent: i32,
    seen: HashSet<i32>,
    count: usize,
}

impl Starts {
    /// Of the process `parent`; those that are there count.
    pub(crate) fn of(parent: i32) -> Self {
        Self { parent, seen: HashSet::new(), count: 0 }
    }

    /// How many there have been by now.
    pub(crate) fn count(&mut self) -> usize {
        let new = all().filter(|&candidate| self.seen.insert(candidate));
        let theirs = |candidate| stat(candidate).is_some_and(|stat| stat.parent == self.parent);
        self.count += new.filter(|&candidate| theirs(candidate)).count();
        self.count
    }
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

/// The time all processors of the machine were busy since it started, whoever kept them busy; time
/// that the host took away counts as busy.
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
    // The name in the brackets may hold anything; what follows the last bracket does not.
    let (_, rest) = text.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| words.get(index)?.parse::<u32>().ok();
    Some(Stat {
        parent: words.get(1)?.parse().ok()?,
        own: TICK * (ticks(11)? + ticks(12)?),
        ended_children: TICK * (ticks(13)? + ticks(14)?),
    })
}
