//! What reaches other processes of the account where no namespace keeps them apart.

use super::rules::{Rules, rule};
use seccompiler::{BackendError, SeccompCmpArgLen as Len, SeccompCmpOp as Op};

/// Calls that change how a process is scheduled, which they name in their first argument; 0 is the caller.
const SCHEDULES: &[i64] = &[
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];

/// Calls that change the priority of a process, a group of processes, or all of an account, and the number that says that an
/// account is meant. The second argument names it; 0 is the caller's.
const PRIORITIES: &[(i64, u64)] = &[(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// System V's and POSIX's shared objects: what a command makes would outlive its call, and any number leads to those of
/// others. The answer is that of a kernel without them.
pub(super) const OBJECTS: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

pub(super) fn add(refused: &mut Rules) -> Result<(), BackendError> {
    let other = |argument: u8| (argument, Len::Dword, Op::Ne, 0);
    for call in SCHEDULES {
        refused.insert(*call, vec![rule(vec![other(0)])?]);
    }
    for (call, account) in PRIORITIES {
        let rules = vec![rule(vec![other(1)])?, rule(vec![(0, Len::Dword, Op::Eq, *account)])?];
        refused.insert(*call, rules);
    }
    // To read the limits of another process changes nothing.
    let sets = (2, Len::Qword, Op::Ne, 0);
    refused.insert(libc::SYS_prlimit64, vec![rule(vec![other(0), sets])?]);
    Ok(())
}
