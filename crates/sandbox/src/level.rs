//! How much of the sandbox is in force, in the words that receipts, logs and `surety config check`
//! show.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the closed set of what a level can lack, with the word and the meaning of each.
macro_rules! missing {
    ($($variant:ident = $text:literal, $meaning:literal;)*) => {
        /// Something that the strongest level has and a weaker one lacks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Missing {
            $(#[doc = $meaning] $variant,)*
        }

        impl Missing {
            /// Everything that can be missing, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word in receipts and logs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What a command can do without it.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

missing! {
    UserNamespace = "user_namespace", "A command may create user namespaces unless seccomp refuses them, and the process limit counts every process of the account.";
    MountNamespace = "mount_namespace", "Names, sizes and times of files outside the workspace can be seen; /tmp and /dev/shm are not private and refuse writes; caches are read-only; views are copies; a step's write scope does not bind its commands.";
    PidNamespace = "pid_namespace", "Names and arguments of other processes of the machine can be seen in /proc; left processes are found by their parents instead of being ended by the kernel; limits, priorities and processors can be set only by processes for themselves.";
    IpcNamespace = "ipc_namespace", "System V shared memory, semaphores and message queues, and POSIX message queues, are refused by seccomp; without it those of other processes can be reached.";
    NetworkNamespace = "network_namespace", "There is no loopback of its own: IPv4 and IPv6 sockets are refused, or reach the host when the policy accepts the network.";
    Landlock = "landlock", "Every file that the account may use can be read and written.";
    FileAttributes = "file_attributes", "Modes, owners, times and extended attributes of files outside the workspace that belong to the command's account can be changed, because Landlock does not govern them.";
    LandlockTruncate = "landlock_truncate", "Files outside the workspace that the account may write can be cut to no bytes (Linux before 6.2).";
    LandlockIoctl = "landlock_ioctl", "Devices that can be opened take any ioctl (Linux before 6.10).";
    LandlockScope = "landlock_scope", "Processes of the same account can be sent signals (Linux before 6.12).";
    Seccomp = "seccomp", "Every system call is allowed.";
    ProcessLimit = "process_limit", "The number of processes is not bounded, because the limit does not bind root.";
    MemoryLimit = "memory_limit", "Memory is bounded for each process and not for the command as a whole.";
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is in force for one command, best first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InForce {
    /// Everything.
    Full,
    /// Everything but this.
    Partial(Vec<Missing>),
    /// Nothing: processes are found and ended, and resource limits hold.
    None,
}

impl InForce {
    /// The level when this is missing.
    pub(crate) fn without(mut missing: Vec<Missing>) -> Self {
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() { Self::Full } else { Self::Partial(missing) }
    }

    /// What is missing; empty at the strongest level, and at none, which lacks everything.
    pub fn missing(&self) -> &[Missing] {
        match self {
            Self::Partial(missing) => missing,
            Self::Full | Self::None => &[],
        }
    }
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Partial(missing) => {
                let names: Vec<_> = missing.iter().map(|one| one.as_str()).collect();
                write!(f, "partial({})", names.join(", "))
            }
            Self::None => f.write_str("none"),
        }
    }
}

/// Which mechanisms confine a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Namespaces and a private mount tree, with seccomp.
    Namespaces,
    /// Landlock and seccomp.
    Landlock,
    /// sandbox-exec of macOS.
    SandboxExec,
    /// None.
    None,
}

/// The level that the operator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// The strongest that the machine has.
    #[default]
    Auto,
    /// The strongest of all, or an error.
    Full,
    /// The level of a kernel without namespaces, or an error.
    Partial,
    /// No confinement.
    None,
}

impl Wanted {
    /// Every level that can be asked for.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Full, Self::Partial, Self::None];

    /// The word in the settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }

    /// The level with this word.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wanted| wanted.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_names_what_is_missing_once_and_in_a_fixed_order() {
        let missing = vec![Missing::MemoryLimit, Missing::PidNamespace, Missing::MemoryLimit];
        let level = InForce::without(missing);
        assert_eq!(level.to_string(), "partial(pid_namespace, memory_limit)");
        assert_eq!(InForce::without(Vec::new()).to_string(), "full");
        assert_eq!(InForce::None.to_string(), "none");
    }
}
