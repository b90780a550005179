//! What the kernel of this machine has, as far as it can be asked without trying a command.

use crate::level::Missing;
use crate::spec::Cgroup;
use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use std::fs;
use std::path::{Path, PathBuf};

/// What Landlock lacks on this kernel.
///
/// # Errors
/// The kernel has no Landlock, or it is switched off.
pub(crate) fn landlock_lacks() -> Result<Vec<Missing>, landlock::RulesetError> {
    let ruleset = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset().handle_access(AccessFs::from_all(ABI::V1))?.create()?;
    let mut missing = Vec::new();
    if ruleset().handle_access(AccessFs::Truncate).is_err() {
        missing.push(Missing::LandlockTruncate);
    }
    if ruleset().handle_access(AccessFs::IoctlDev).is_err() {
        missing.push(Missing::LandlockIoctl);
    }
    if ruleset().scope(Scope::from_all(ABI::V6)).is_err() {
        missing.push(Missing::LandlockScope);
    }
    Ok(missing)
}

/// Control groups below which this process may be able to make one.
pub(crate) fn cgroups() -> Vec<Cgroup> {
    let read = |path| fs::read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
    let (Ok(own), Ok(mounts)) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo")) else {
        return Vec::new();
    };
    own.lines().flat_map(|line| candidates(line, &mounts)).collect()
}

/// The groups that one line of `/proc/self/cgroup` offers, best first.
fn candidates(line: &str, mounts: &str) -> Vec<Cgroup> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    if controllers.is_empty() {
        let Some(folder) = mounted(mounts, path, |kind, _| kind == "cgroup2") else {
            return Vec::new();
        };
        // The kernel gives limits to the groups below one that itself has no processes; that is the
        // parent, unless this process was given a group of its own to divide.
        let above = folder.parent().filter(|_| path != "/").map(Path::to_owned);
        return [Some(folder), above].into_iter().flatten().find_map(unified).into_iter().collect();
    }
    let has = |wanted: &str| controllers.split(',').any(|controller| controller == wanted);
    let (memory, pids) = (has("memory"), has("pids"));
    if !memory && !pids {
        return Vec::new();
    }
    let options = |kind: &str, options: &str| {
        kind == "cgroup"
            && options.split(',').any(|option| controllers.split(',').any(|c| c == option))
    };
    mounted(mounts, path, options)
        .map(|parent| Cgroup { parent, unified: false, memory, pids })
        .into_iter()
        .collect()
}

fn unified(parent: PathBuf) -> Option<Cgroup> {
    let given = fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
    let has = |wanted: &str| given.split_whitespace().any(|controller| controller == wanted);
    let (memory, pids) = (has("memory"), has("pids"));
    (memory || pids).then_some(Cgroup { parent, unified: true, memory, pids })
}

/// Where a group's folder is mounted.
fn mounted(mounts: &str, path: &str, fits: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut system = after.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let mut place = before.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        if !fits(kind, options) {
            return None;
        }
        // A container sees its own group as the root of what is mounted.
        let inside =
            Path::new(path).strip_prefix(root).or_else(|_| Path::new(path).strip_prefix("/"));
        Some(Path::new(point).join(inside.ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
36 32 0:31 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
37 32 0:32 /docker/abc /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids
";

    #[test]
    fn a_group_of_the_older_hierarchies_is_found_where_its_controller_is_mounted() {
        let found = |line| candidates(line, MOUNTS).pop().map(|group| group.parent);
        let expected = Some(PathBuf::from("/sys/fs/cgroup/memory/a/b"));
        assert_eq!(found("4:memory:/a/b"), expected);
        let expected = Some(PathBuf::from("/sys/fs/cgroup/pids/x"));
        assert_eq!(found("8:pids:/docker/abc/x"), expected);
        assert_eq!(found("3:cpuset:/a"), None);
        assert_eq!(found("nonsense"), None);
    }
}
