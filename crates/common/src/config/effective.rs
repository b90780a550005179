//! The effective settings, and the source of each value.

use std::fmt;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::settings::{Accepts, Setting, settings};

/// One effective setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The setting.
    pub setting: &'static Setting,
    /// The value without its secrets; absent when nothing is set.
    pub value: Option<String>,
    /// The source of the value.
    pub source: Source,
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A flag.
    Flag,
    /// The environment variable.
    Environment,
    /// Not set.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Default => "default",
        })
    }
}

/// The settings in `matches`, in the order of the table. With subcommands, pass the matches of the
/// subcommand that has the settings.
#[must_use]
pub fn effective(matches: &ArgMatches) -> Vec<Effective> {
    settings().iter().filter_map(|setting| in_force(matches, setting)).collect()
}

fn in_force(matches: &ArgMatches, setting: &'static Setting) -> Option<Effective> {
    let id = setting.id();
    let raw = matches.try_get_raw(&id).ok()?;
    let source = match matches.value_source(&id) {
        Some(ValueSource::CommandLine) => Source::Flag,
        Some(ValueSource::EnvVariable) => Source::Environment,
        _ => Source::Default,
    };
    let text = raw
        .and_then(|mut values| values.next_back())
        .map(|value| value.to_string_lossy().into_owned());
    let value = match setting.accepts {
        // The raw value of a switch is the variable's text; the matches have its boolean.
        Accepts::Switch => Some(matches.get_flag(&id).to_string()),
        Accepts::Url(_) => text.as_deref().map(without_password),
        Accepts::Whole { .. }
        | Accepts::Word(_)
        | Accepts::Address
        | Accepts::LogFilter
        | Accepts::Name
        | Accepts::Addresses
        | Accepts::Hosts
        | Accepts::Aliases
        | Accepts::Repositories
        | Accepts::Secrets
        | Accepts::Path
        | Accepts::Paths => text.map(|text| if setting.secret { "***".to_owned() } else { text }),
    };
    Some(Effective { setting, value, source })
}

/// The URL with every password in it replaced, in the user part and in the query.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "***".to_owned();
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    // The last @ ends the user part: a password that contains an unescaped @ or / must be replaced
    // whole.
    let place = match place.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:***@{host}"),
            None => format!("{user}@{host}"),
        },
        None => place.to_owned(),
    };
    let query = query.map(|query| {
        let parts: Vec<_> = query.split('&').map(without_value_of_secret).collect();
        format!("?{}", parts.join("&"))
    });
    format!("{scheme}://{place}{}", query.unwrap_or_default())
}

fn without_value_of_secret(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("pass") => format!("{name}=***"),
        _ => parameter.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        let cases = [
            ("postgres://u:p@h:5432/d", "postgres://u:***@h:5432/d"),
            ("postgres://u:p@ss/word@h/d", "postgres://u:***@h/d"),
            ("postgres://u@%2Ftmp%2Fx/d", "postgres://u@%2Ftmp%2Fx/d"),
            ("postgres://h/d?password=p&host=/x", "postgres://h/d?password=***&host=/x"),
            ("http://127.0.0.1:4317", "http://127.0.0.1:4317"),
            ("no url", "***"),
        ];
        for (url, expected) in cases {
            assert_eq!(without_password(url), expected);
        }
    }

    proptest! {
        #[test]
        fn no_password_survives(password in "[A-Z0-9@/:]{3,20}") {
            let shown = without_password(&format!("postgres://u:{password}@h/d"));
            prop_assert_eq!(shown, "postgres://u:***@h/d");
        }
    }
}
