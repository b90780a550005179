//! Programs that run under the account or group of their file: a command would leave them to every account of the machine,
//! which starts them without a sandbox.

use super::rules::{Rules, rule};
use seccompiler::{BackendError, SeccompCmpArgLen as Len, SeccompCmpOp as Op};

/// The bit of a mode that gives a program the account of its file.
const SET_USER: u64 = 0o4000;
/// The bit that gives it the group of its file.
const SET_GROUP: u64 = 0o2000;

/// Not in every version of the C library's headers; the number is the same everywhere.
const FCHMODAT2: i64 = 452;

/// The part of `O_TMPFILE` that is no other flag.
const UNNAMED: u64 = 0o20_000_000;

/// Calls that change a mode, and the argument with it.
///
/// The group's bit is allowed here: folders have it so that what is made in them keeps their group, as `chmod g+s` and
/// `git init --shared` want it, and a filter sees no difference between a folder and a file.
const CHANGES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
];

/// Calls that make a file, and the argument with its mode.
const MAKES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that make a file where the flags in the argument before the mode say so. Without these flags the mode is whatever
/// the register holds.
const OPENS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
    (libc::SYS_openat, 3),
];

pub(super) fn add(refused: &mut Rules) -> Result<(), BackendError> {
    let has = |argument: u8, bit: u64| (argument, Len::Dword, Op::MaskedEq(bit), bit);
    for (call, mode) in CHANGES {
        refused.insert(*call, vec![rule(vec![has(*mode, SET_USER)])?]);
    }
    let bits = [SET_USER, SET_GROUP];
    for (call, mode) in MAKES {
        let rules = bits.map(|bit| rule(vec![has(*mode, bit)]));
        refused.insert(*call, rules.into_iter().collect::<Result<_, _>>()?);
    }
    let created = u64::from(libc::O_CREAT.unsigned_abs());
    for (call, mode) in OPENS {
        let cases = bits.into_iter().flat_map(|bit| [(created, bit), (UNNAMED, bit)]);
        let rules = cases.map(|(flag, bit)| rule(vec![has(mode - 1, flag), has(*mode, bit)]));
        refused.insert(*call, rules.collect::<Result<_, _>>()?);
    }
    Ok(())
}
