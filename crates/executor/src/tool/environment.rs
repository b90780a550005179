//! The environment variables of commands.

use crate::tool::RunSecrets;
use crate::tool::error::{ErrorCode, ToolError};
use nix::unistd::{Uid, User};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use uuid::Uuid;

/// The variables of the executor's environment that a command inherits: those needed to find
/// programs, to show text and times, to name the user, and to find a toolchain.
const PASSED_ON: [&str; 28] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOROOT",
    "GOPATH",
    "GOCACHE",
    "GOMODCACHE",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_USER_HOME",
    "NVM_DIR",
    "PNPM_HOME",
    "VIRTUAL_ENV",
    "PYENV_ROOT",
    "DOTNET_ROOT",
    "SDKROOT",
];

/// Those of them that choose no program: a call may set them too.
const FREE: [&str; 8] = ["LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "USER", "LOGNAME", "SHELL"];

/// Those of them that an MCP server gets.
const OF_SERVERS: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE"];

/// The variable with the call's idempotency key, which is the same in every repetition.
pub const IDEMPOTENCY_KEY: &str = "SURETY_IDEMPOTENCY_KEY";

/// Environment variables. Their `Debug` form has the names alone, because values may be secrets of tools.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// Selects the variables that commands may inherit; all others are dropped.
    pub fn scrub(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let passed_on = |name: &OsStr| PASSED_ON.iter().any(|passed| name == *passed);
        Self(variables.into_iter().filter(|(name, _)| passed_on(name)).collect())
    }

    /// Selects them from this process's environment. What it does not have of the user comes from the user's account: a
    /// service manager sets none of it.
    pub fn of_process() -> Self {
        Self::scrub(std::env::vars_os())
            .with_account(User::from_uid(Uid::effective()).ok().flatten())
    }

    fn with_account(mut self, account: Option<User>) -> Self {
        let Some(User { name, shell, .. }) = account else { return self };
        // An account of a service has a shell that ends at once.
        let ends = shell.file_name().is_none_or(|name| name == "nologin" || name == "false");
        let shell = if ends { OsString::from("/bin/sh") } else { shell.into_os_string() };
        for (variable, value) in
            [("USER", name.clone().into()), ("LOGNAME", name.into()), ("SHELL", shell)]
        {
            let missing = self.get(variable).is_none_or(OsStr::is_empty);
            if missing {
                self.0.insert(variable.into(), value);
            }
        }
        self
    }

    /// The environment of an MCP server: what is needed to find programs and to show text, and what its operator
    /// names.
    pub(super) fn of_server(named: BTreeMap<String, String>) -> Self {
        let mut all = Self::of_process();
        all.0.retain(|name, _| OF_SERVERS.iter().any(|passed| name == passed));
        all.0.extend(named.into_iter().map(|(name, value)| (name.into(), value.into())));
        all
    }

    /// Adds a call's own variables.
    ///
    /// # Errors
    /// `env_not_allowed` for an invalid name, for one that decides which program a command runs (a
    /// receipt for `cargo test` must be about cargo), or for one that is reserved for secrets.
    pub fn with(&self, added: &BTreeMap<String, String>) -> Result<Self, ToolError> {
        let mut all = self.clone();
        for (name, value) in added {
            if !may_be_added(name) || value.contains('\0') {
                return Err(not_allowed(name));
            }
            all.0.insert(name.into(), value.into());
        }
        Ok(all)
    }

    /// Adds a call's own variables, those with a reference to a secret with its value.
    ///
    /// # Errors
    /// As [`with`](Self::with); `secret_unavailable`.
    pub fn with_secrets(
        &self,
        added: &BTreeMap<String, String>,
        secrets: &RunSecrets,
    ) -> Result<Self, ToolError> {
        let (mut plain, mut secret) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in added {
            match secrets.resolve(value)? {
                None => plain.insert(name.clone(), value.clone()),
                Some(value) if may_hold_secret(name) => secret.insert(name.clone(), value),
                Some(_) => return Err(not_allowed(name)),
            };
        }
        let mut all = self.with(&plain)?;
        all.0.extend(secret.into_iter().map(|(name, value)| (name.into(), value.into())));
        Ok(all)
    }

    /// Adds a variable that no call can add, such as a credential of git.
    #[must_use]
    pub(crate) fn holding(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Adds the idempotency key of a call. No call can set it: [`with`](Self::with) refuses names
    /// with its prefix.
    #[must_use]
    pub fn keyed(mut self, call_id: Uuid) -> Self {
        self.0.insert(IDEMPOTENCY_KEY.into(), call_id.to_string().into());
        self
    }

    /// The value of one variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Every variable, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

fn not_allowed(name: &str) -> ToolError {
    let message = format!("{name:?} may not be set for a command; remove it");
    ToolError::new(ErrorCode::EnvNotAllowed, message)
}

fn may_be_added(name: &str) -> bool {
    chooses_no_program(name) && !is_secret(&name.to_ascii_uppercase())
}

/// A secret of the operator may have the name of one, but none of this service's.
fn may_hold_secret(name: &str) -> bool {
    chooses_no_program(name) && !name.to_ascii_uppercase().starts_with("SURETY_")
}

fn chooses_no_program(name: &str) -> bool {
    let folded = name.to_ascii_uppercase();
    let is_name = !name.is_empty() && !name.contains(['=', '\0']);
    let chooses_programs = PASSED_ON.contains(&folded.as_str()) && !FREE.contains(&folded.as_str())
        || folded.starts_with("LD_")
        || folded.starts_with("DYLD_");
    is_name && !chooses_programs
}

fn is_secret(name: &str) -> bool {
    name == "DATABASE_URL"
        || name.starts_with("SURETY_")
        || ["_TOKEN", "_KEY", "_SECRET", "_PASSWORD"].iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_and_nothing_unknown_is_passed_on() {
        let host = [
            ("PATH", "/bin"),
            ("CARGO_HOME", "/c"),
            ("SURETY_MODEL_KEY", "s"),
            ("GITHUB_TOKEN", "s"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("DATABASE_URL", "s"),
            ("EDITOR", "vi"),
        ];
        let seen = Environment::scrub(host.map(|(name, value)| (name.into(), value.into())));
        let names: Vec<_> = seen.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["CARGO_HOME", "PATH"]);
    }

    #[test]
    fn the_user_is_that_of_the_environment_else_that_of_the_account() {
        let root = User::from_uid(Uid::from_raw(0)).unwrap().unwrap();
        let account = |shell: &str| User { shell: shell.into(), ..root.clone() };
        let host = [("USER", "ann"), ("TZ", "Europe/Berlin"), ("MAIL", "/var/mail/ann")];
        let host = host.map(|(name, value)| (name.into(), value.into()));
        let named = Environment::scrub(host).with_account(Some(account("/bin/zsh")));
        let values: Vec<_> =
            named.iter().map(|(name, value)| format!("{name:?}={value:?}")).collect();
        assert_eq!(
            values.join(" ").replace('"', ""),
            "LOGNAME=root SHELL=/bin/zsh TZ=Europe/Berlin USER=ann"
        );
        for shell in ["/usr/sbin/nologin", "/bin/false", ""] {
            let named = Environment::default().with_account(Some(account(shell)));
            assert_eq!(named.get("SHELL"), Some(OsStr::new("/bin/sh")), "{shell}");
        }
        assert_eq!(Environment::default().with_account(None), Environment::default());
    }

    #[test]
    fn a_call_cannot_choose_another_program_or_hand_itself_a_secrets_name() {
        for (name, allowed) in [
            ("RUST_BACKTRACE", true),
            ("LANG", true),
            ("TZ", true),
            ("USER", true),
            ("PATH", false),
            ("HOME", false),
            ("LD_PRELOAD", false),
            ("DYLD_INSERT_LIBRARIES", false),
            ("CARGO_HOME", false),
            ("GITHUB_TOKEN", false),
            ("surety_x", false),
            ("DATABASE_URL", false),
            ("A=B", false),
            ("", false),
        ] {
            let added = BTreeMap::from([(name.to_owned(), "v".to_owned())]);
            let answer = Environment::default().with(&added);
            assert_eq!(answer.is_ok(), allowed, "{name:?}");
        }
        for (name, allowed) in [("GITHUB_TOKEN", true), ("SURETY_X", false), ("PATH", false)] {
            assert_eq!(may_hold_secret(name), allowed, "{name:?}");
        }
    }
}
