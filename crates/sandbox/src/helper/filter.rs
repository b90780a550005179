//! The system calls that a build or a test never needs, refused by seccomp.

mod neighbours;
mod rules;
mod set_id;

use crate::spec::{Network, NotStarted};
use rules::{Rules, rule};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::io;

/// Namespaces that `clone` and `unshare` can make: CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC,
/// NEWUSER, NEWPID and NEWNET.
const NEW_NAMESPACES: [u64; 8] = [
    0x80,
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
];

/// ioctls that type into a terminal or steer the console: TIOCSTI and TIOCLINUX.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541C];

/// Numbers from here on name calls of the x32 ABI, which are the same calls under other numbers.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Every call below is refused with EPERM, whatever its arguments.
const REFUSED: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_nfsservctl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_open_by_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
];

/// Calls whose flags or modes lie in memory, which a filter cannot read. Programs then use `clone` and `openat`, as on a
/// kernel without these.
const ABSENT: &[i64] = &[libc::SYS_clone3, libc::SYS_openat2];

/// What `socket` may open besides what every level allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Internet and local sockets: their reach is bounded by a network namespace and the mount tree.
    Namespaced,
    /// Internet sockets, because the policy accepts the host's network.
    Internet,
    /// None that reaches another process.
    Nothing,
}

impl Sockets {
    /// Where no namespace bounds them.
    pub(super) const fn without_namespaces(network: &Network) -> Self {
        match network {
            Network::All => Self::Internet,
            Network::None | Network::HostLoopback(_) | Network::Hosts(_) => Self::Nothing,
        }
    }

    fn families(self) -> &'static [i32] {
        match self {
            Self::Namespaced => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
            Self::Internet => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
            Self::Nothing => &[libc::AF_NETLINK],
        }
    }
}

/// Refuses the calls for this process and all that it starts. The service's parser has `openat2`, by which it opens files
/// beneath the workspace and no others; it can write no file that stays.
pub(super) fn apply(sockets: Sockets, is_parser: bool) -> Result<(), NotStarted> {
    let failed = |error: String| NotStarted::setup("seccomp", &io::Error::other(error));
    let programs = programs(sockets, is_parser).map_err(|error| failed(error.to_string()))?;
    for program in programs {
        seccompiler::apply_filter(&program).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

fn programs(
    sockets: Sockets,
    is_parser: bool,
) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut refused: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let flag = |argument, bit| rule(vec![(argument, Len::Dword, Op::MaskedEq(bit), bit)]);
    let namespaces = NEW_NAMESPACES.iter().map(|bit| flag(0, *bit));
    // CLONE_NEWTIME shares its bit with the signal that `clone` sends at the end.
    let clone = namespaces.skip(1).collect::<Result<_, _>>()?;
    refused.insert(libc::SYS_clone, clone);
    let input = TERMINAL_INPUT.iter().map(|call| rule(vec![(1, Len::Dword, Op::Eq, *call)]));
    refused.insert(libc::SYS_ioctl, input.collect::<Result<_, _>>()?);
    let (socket, pair) = socket_rules(sockets)?;
    refused.insert(libc::SYS_socket, socket);
    refused.insert(libc::SYS_socketpair, pair);
    set_id::add(&mut refused)?;
    let mut absent: Rules = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
    if is_parser {
        absent.remove(&libc::SYS_openat2);
    }
    if sockets != Sockets::Namespaced {
        neighbours::add(&mut refused)?;
        absent.extend(neighbours::OBJECTS.iter().map(|call| (*call, Vec::new())));
    }
    Ok([program(refused, libc::EPERM)?, program(absent, libc::ENOSYS)?])
}

fn socket_rules(
    sockets: Sockets,
) -> Result<(Vec<SeccompRule>, Vec<SeccompRule>), seccompiler::BackendError> {
    let number = |family: i32| u64::from(family.unsigned_abs());
    let of = |argument: u8, op: Op, value: u64| (argument, Len::Dword, op, value);
    let other = sockets.families().iter().map(|family| of(0, Op::Ne, number(*family))).collect();
    let netlink = number(libc::AF_NETLINK);
    // Of netlink only the routing family, which programs ask for the machine's interfaces.
    let not_routing = vec![of(0, Op::Eq, netlink), of(2, Op::Ne, 0)];
    // Landlock's rules for ports are about TCP alone. Programs that try this first fall back to TCP.
    let multipath = vec![of(2, Op::Eq, number(libc::IPPROTO_MPTCP))];
    let pair = vec![of(0, Op::Ne, number(libc::AF_UNIX))];
    Ok((vec![rule(other)?, rule(not_routing)?, rule(multipath)?], vec![rule(pair)?]))
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    #[cfg(target_arch = "x86_64")]
    let rules: Rules = {
        let x32: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
        rules.into_iter().chain(x32).collect()
    };
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile_for_this_processor() {
        for sockets in [Sockets::Namespaced, Sockets::Internet, Sockets::Nothing] {
            let [refused, absent] = programs(sockets, false).unwrap();
            assert!(refused.len() > REFUSED.len() && !absent.is_empty());
        }
    }
}
