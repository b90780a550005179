//! Reads one value: the accepted form, and the error message otherwise.

use std::ffi::OsStr;
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;

use crate::domain::repository::is_repository_prefix;

use super::secret::Secret;
use super::secrets::{NamedSecrets, read_secrets};
use super::settings::{Accepts, Setting};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One line of text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// The name in flags and variables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LogFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Text, Self::Json].into_iter().find(|format| format.as_str() == text).ok_or(())
    }
}

/// Parses the values of one setting into `T`, and builds the error message from its declaration.
#[derive(Debug)]
pub(super) struct Reader<T> {
    setting: &'static Setting,
    value: PhantomData<fn() -> T>,
}

impl<T> Reader<T> {
    pub(super) const fn of(setting: &'static Setting) -> Self {
        Self { setting, value: PhantomData }
    }
}

// Not derived: a derive would require `T: Clone`, which a reader does not need.
impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self::of(self.setting)
    }
}

impl Setting {
    pub(super) const fn reads<T: FromSetting>(&'static self) -> Reader<T> {
        Reader::of(self)
    }
}

/// A type that a setting's text converts to, once the declaration accepts the text.
pub(super) trait FromSetting: Sized + Clone + Send + Sync + 'static {
    fn from_setting(text: &str) -> Option<Self>;
}

impl FromSetting for u64 {
    fn from_setting(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl FromSetting for u32 {
    fn from_setting(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl FromSetting for bool {
    fn from_setting(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl FromSetting for String {
    fn from_setting(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl FromSetting for Secret {
    fn from_setting(text: &str) -> Option<Self> {
        Some(Self::new(text))
    }
}

impl FromSetting for NamedSecrets {
    fn from_setting(text: &str) -> Option<Self> {
        read_secrets(text)
    }
}

impl FromSetting for PathBuf {
    fn from_setting(text: &str) -> Option<Self> {
        Some(Self::from(text))
    }
}

impl FromSetting for SocketAddr {
    fn from_setting(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl FromSetting for LogFormat {
    fn from_setting(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl<T: FromSetting> TypedValueParser for Reader<T> {
    type Value = T;

    fn parse_ref(
        &self,
        cmd: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse_ref_(cmd, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        cmd: &clap::Command,
        _arg: Option<&clap::Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<T, clap::Error> {
        value
            .to_str()
            .map(str::trim)
            .filter(|text| self.setting.accepts.allows(text))
            .and_then(T::from_setting)
            .ok_or_else(|| self.refusal(value, source).with_cmd(cmd))
    }
}

impl<T> Reader<T> {
    fn refusal(&self, value: &OsStr, source: ValueSource) -> clap::Error {
        let Setting { flag, env, accepts, default, .. } = self.setting;
        let found = if self.setting.secret {
            "invalid (the value is not shown)".to_owned()
        } else {
            format!("{value:?}")
        };
        let place = if source == ValueSource::EnvVariable {
            format!("the environment variable {env}")
        } else {
            format!("--{flag}")
        };
        let otherwise = if default.is_empty() {
            "or leave it out".to_owned()
        } else {
            format!("or leave it out for the default, {default}")
        };
        let text = format!("{place} is {found}. Give {accepts}, {otherwise}\n");
        clap::Error::raw(ErrorKind::ValueValidation, text)
    }
}

impl Accepts {
    /// Whether `text`, trimmed, is a value of this kind and in its range.
    #[must_use]
    pub fn allows(&self, text: &str) -> bool {
        match self {
            Self::Whole { min, max, .. } => {
                text.parse::<u64>().is_ok_and(|number| (*min..=*max).contains(&number))
            }
            Self::Word(words) => words.contains(&text),
            Self::Address => text.parse::<SocketAddr>().is_ok(),
            Self::Url(schemes) => schemes.iter().any(|scheme| is_url_of(scheme, text)),
            Self::Addresses => text.split(',').all(is_host_and_port),
            Self::Hosts => text.split(',').all(is_host),
            Self::Aliases => text.split(',').all(is_alias),
            Self::Secrets => read_secrets(text).is_some(),
            Self::Repositories => text.split(',').all(|it| is_repository_prefix(it.trim())),
            Self::LogFilter => is_log_filter(text),
            Self::Name => {
                (1..=255).contains(&text.chars().count()) && !text.contains(char::is_whitespace)
            }
            Self::Path => !text.is_empty(),
            // Everything on the machine is below `/`.
            Self::Paths => text.split(':').all(|path| path.starts_with('/') && !is_root(path)),
            Self::Switch => matches!(text, "true" | "false"),
        }
    }
}

fn is_url_of(scheme: &str, text: &str) -> bool {
    text.strip_prefix(scheme)
        .and_then(|rest| rest.strip_prefix("://"))
        .is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

/// A host, by name or number.
fn is_host(text: &str) -> bool {
    let host = text.trim();
    !host.is_empty() && !host.contains(['/', '@', ' '])
}

/// A name, and the name of the tool that it stands for.
fn is_alias(text: &str) -> bool {
    let named = |name: &str| {
        let name = name.trim();
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        (1..=64).contains(&name.len()) && name.chars().all(allowed)
    };
    text.split_once('=').is_some_and(|(alias, tool)| named(alias) && named(tool))
}

/// A host, by name or number, and a port.
fn is_host_and_port(text: &str) -> bool {
    text.trim().rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', '@', ' ']) && port.parse::<u16>().is_ok()
    })
}

/// Directives separated by commas, each a level or a target and a level. A misspelt level must not
/// be parsed as a target's name, which would disable every log line.
fn is_log_filter(text: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    text.split(',').all(|directive| {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        LEVELS.contains(&level.trim().to_ascii_lowercase().as_str())
    })
}

/// Whether an absolute path is that of the root folder, as it is written.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_accepted_only_in_its_range_and_form() {
        let slots = Accepts::Whole { min: 1, max: 64, unit: "steps" };
        let postgres = Accepts::Url(&["postgres", "postgresql"]);
        let cases = [
            (slots, "1", true),
            (slots, "64", true),
            (slots, "0", false),
            (slots, "65", false),
            (slots, "-1", false),
            (slots, "99999999999999999999999", false),
            (Accepts::Address, "127.0.0.1:7401", true),
            (Accepts::Address, "[::1]:0", true),
            (Accepts::Address, "7401", false),
            (Accepts::Addresses, "localhost:80, [::1]:8080", true),
            (Accepts::Addresses, "localhost", false),
            (Accepts::Addresses, "http://localhost:80", false),
            (Accepts::Aliases, "cat=read_file, Grep = grep", true),
            (Accepts::Aliases, "cat", false),
            (Accepts::Secrets, "npm@a,b=file:/run/npm;x@*=env:X", true),
            (Accepts::Secrets, "npm=file:/run/npm", false),
            (Accepts::Aliases, "cat=read file", false),
            (Accepts::Repositories, "https://a.org/team/, file:///srv/git", true),
            (Accepts::Repositories, "https://a.org", true),
            (Accepts::Repositories, "a.org/team", false),
            (Accepts::Repositories, "https://user@a.org/team", false),
            (postgres, "postgres://surety@%2Ftmp%2Fx/surety", true),
            (postgres, "postgresql://h/d", true),
            (postgres, "mysql://h/d", false),
            (postgres, "postgres://", false),
            (Accepts::LogFilter, "info", true),
            (Accepts::LogFilter, "warn,surety::transition=info", true),
            (Accepts::LogFilter, "infoo", false),
            (Accepts::LogFilter, "", false),
            (Accepts::Name, "node-1.example", true),
            (Accepts::Name, "two words", false),
            (Accepts::Name, "", false),
            (Accepts::Path, "", false),
            (Accepts::Paths, "/srv/tools:/data/models", true),
            (Accepts::Paths, "/srv/tools:models", false),
            (Accepts::Paths, "/srv/tools:/", false),
            (Accepts::Paths, "/./srv/..", false),
        ];
        for (accepts, text, expected) in cases {
            assert_eq!(accepts.allows(text), expected, "{accepts}: {text:?}");
        }
    }
}
