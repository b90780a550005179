//! The file with the webhooks.
//!
//! ```text
//!   # name     url                               namespaces       events                  secret
//!   chat-bot   https://bot.example/hooks/surety  default,team-a   wait.opened,run.ended   whsec_kP1n...
//! ```

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::error::ConfigError;
use super::secret::Secret;
use super::token::open_to_all;

/// What a secret begins with, as Standard Webhooks have it; the key follows in base64.
pub const SECRET_PREFIX: &str = "whsec_";
/// The fewest characters of a secret behind its prefix: 24 bytes, the shortest key of Standard Webhooks.
const SHORTEST_SECRET: usize = 32;
/// An event, and what it tells of.
const WAIT_OPENED: &str = "wait.opened";
const RUN_ENDED: &str = "run.ended";
/// Every namespace, or every event.
const EVERY: &str = "*";

/// An address that is told what happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its name in logs, metrics and rows.
    pub name: String,
    /// Where events are sent; `https`, or `http`.
    pub url: String,
    /// The namespaces of the events; empty for all.
    pub namespaces: Vec<String>,
    /// Whether it gets the waits for people and for plans.
    pub waits: bool,
    /// Whether it is told of the ends of runs.
    pub runs: bool,
    /// What events are signed with, with its prefix.
    pub secret: Secret,
}

/// Reads the webhooks in the file at `path`.
///
/// # Errors
/// The file cannot be read, is readable by every user, or has a line that does not read.
pub(super) fn read_webhooks(path: &Path) -> Result<Vec<Webhook>, ConfigError> {
    let unreadable = |source| ConfigError::WebhooksUnreadable { path: path.to_owned(), source };
    if let Some(mode) = open_to_all(&fs::metadata(path).map_err(unreadable)?) {
        return Err(ConfigError::WebhooksExposed { path: path.to_owned(), mode });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    read(&text).map_err(|(line, why)| ConfigError::WebhooksLine {
        path: path.to_owned(),
        line,
        why,
    })
}

/// # Errors
/// The number of the line that does not read, and what is wrong with it.
fn read(text: &str) -> Result<Vec<Webhook>, (usize, &'static str)> {
    let (mut webhooks, mut seen) = (Vec::new(), HashSet::new());
    let lines = (1..).zip(text.lines().map(str::trim));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let webhook = read_line(line).map_err(|why| (number, why))?;
        if !seen.insert(webhook.name.clone()) {
            let why = "repeats the name of an earlier line. Give it another";
            return Err((number, why));
        }
        webhooks.push(webhook);
    }
    Ok(webhooks)
}

fn read_line(line: &str) -> Result<Webhook, &'static str> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [name, url, namespaces, events, secret] = columns.as_slice() else {
        return Err(
            "has not five columns. Write it as `<name> <url> <namespaces> <events> <secret>`, with \
             commas inside a column",
        );
    };
    if !["https://", "http://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err("has a URL that does not begin with https:// or http://");
    }
    let is_base64 = |letter: char| letter.is_ascii_alphanumeric() || "+/=".contains(letter);
    let is_key = |key: &str| key.len() >= SHORTEST_SECRET && key.chars().all(is_base64);
    if !secret.strip_prefix(SECRET_PREFIX).is_some_and(is_key) {
        return Err(
            "has a secret that is not `whsec_` and at least 24 bytes in base64. Make one with: echo \
             \"whsec_$(openssl rand -base64 32)\"",
        );
    }
    let list = |text: &str| -> Vec<String> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let events = list(events);
    let has = |event: &str| events.iter().any(|one| one == event || one == EVERY);
    if !events.iter().all(|event| [WAIT_OPENED, RUN_ENDED, EVERY].contains(&event.as_str())) {
        return Err("names an unknown event. Events are wait.opened and run.ended, or * for both");
    }
    let namespaces = if *namespaces == EVERY { Vec::new() } else { list(namespaces) };
    Ok(Webhook {
        name: (*name).to_owned(),
        url: (*url).to_owned(),
        namespaces,
        waits: has(WAIT_OPENED),
        runs: has(RUN_ENDED),
        secret: Secret::new(*secret),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_line_has_five_columns_and_a_wrong_one_is_named_without_its_secret() {
        let good = format!("# x\nbot https://bot.example/x a,b wait.opened {SECRET}\n");
        let webhooks = read(&good).expect("webhooks");
        let [bot] = webhooks.as_slice() else { panic!("{webhooks:?}") };
        assert_eq!((bot.name.as_str(), bot.waits, bot.runs), ("bot", true, false));
        assert_eq!(bot.namespaces, ["a", "b"]);
        let all = read(&format!("bot http://localhost:1 * * {SECRET}")).expect("webhooks");
        assert!(all.iter().all(|bot| bot.namespaces.is_empty() && bot.waits && bot.runs));
        for (line, said) in [
            ("bot https://b * *", "five columns"),
            (&format!("bot ftp://b * * {SECRET}"), "https://"),
            ("bot https://b * * whsec_short", "whsec_"),
            (&format!("bot https://b * run.began {SECRET}"), "unknown event"),
            (&format!("b https://b * * {SECRET}\nb https://c * * {SECRET}"), "repeats"),
        ] {
            let (_, why) = read(line).expect_err("a refusal");
            assert!(why.contains(said), "{why}");
            assert!(!format!("{:?}", read(&good)).contains(SECRET));
        }
    }
}
