//! That a command has no right beyond those of its account, also where root or a user namespace set its sandbox up.

use crate::support::{Sandbox, levels};
use nix::unistd::geteuid;
use std::fs;
use surety_sandbox::Missing;

/// What the kernel says of a process's rights, in its own order.
const RIGHTS: [&str; 6] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"];

/// The rights in a text like `/proc/self/status`.
fn rights(status: &str) -> [String; 6] {
    RIGHTS.map(|right| {
        let value = status.lines().find_map(|line| line.strip_prefix(right)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("no {right} in {status}")).trim().to_owned()
    })
}

#[test]
fn a_command_has_no_capability_and_no_program_gives_it_any() {
    let root = geteuid().is_root();
    // Those that the account's own programs are bounded by.
    let [.., own, _, _] = rights(&fs::read_to_string("/proc/self/status").unwrap());
    for (level, machine) in levels() {
        // The workspace of the account that sets the sandbox up, and where that is root of another one.
        for owner in [None, Some(12345)].into_iter().take(if root { 2 } else { 1 }) {
            let sandbox = Sandbox::new(&machine);
            owner.into_iter().for_each(|owner| sandbox.give_to(owner));
            // Of a program that the command starts, which is as far as a right could come.
            let ran = sandbox.sh("id -u; sh -c 'cat /proc/self/status; exit'");
            assert!(ran.succeeded(), "{level}: {ran:?}");
            let account = owner.unwrap_or(geteuid().as_raw());
            assert!(ran.stdout.starts_with(&format!("{account}\n")), "{level}: {ran:?}");
            let none = "0000000000000000".to_owned();
            // Without a user namespace only root may narrow what bounds it.
            let narrows = root || !machine.in_force().missing().contains(&Missing::UserNamespace);
            let bound = if narrows { none.clone() } else { own.clone() };
            let expected = [none.clone(), none.clone(), none.clone(), bound, none, "1".to_owned()];
            assert_eq!(rights(&ran.stdout), expected, "{level}, account {account}");
        }
    }
}
