//! Asks the person at the terminal where a verdict is in doubt.

use std::io::{BufRead, IsTerminal, stderr, stdin};

use nix::sys::termios::{FlushArg, tcflush};
use nix::unistd::{User, getuid};
use surety_common::domain::acceptance::{Acceptance, Resolution};

use crate::output::note;
use crate::text::{harmless, one_line};

/// The answer that accepts.
const YES: &str = "yes";

/// Whether a person can be asked: the answers come from a terminal, and the question is seen on one.
#[must_use]
pub fn can_ask() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Shows the whole difference and the cautions, and reads the answer. What cannot be shown whole is denied.
#[must_use]
pub fn ask(acceptance: &Acceptance, difference: &str) -> Resolution {
    note(&question(acceptance, difference));
    let hidden = &acceptance.difference.not_shown;
    let approved = if hidden.is_empty() {
        is_accepted()
    } else {
        note(&format!("It cannot be shown whole, so it cannot be accepted: {}", one_line(hidden)));
        false
    };
    Resolution {
        by: person(),
        approved,
        digest: acceptance.digest.clone(),
        workspace: acceptance.difference.workspace.clone(),
        comment: String::new(),
    }
}

fn question(acceptance: &Acceptance, difference: &str) -> String {
    let mut lines =
        vec!["surety: the verdict is in doubt; what changed of the check inputs:".to_owned()];
    // Every character of it can be seen.
    lines.extend(difference.lines().map(|line| format!("  {}", harmless(line))));
    for caution in &acceptance.cautions {
        let parts = [&caution.code, &caution.check, &caution.detail].map(|part| one_line(part));
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        lines.push(format!("  caution  {}", parts.join("  ")));
    }
    lines.push(format!("  digest   {}", acceptance.digest));
    lines.join("\n")
}

/// What was typed before the question answers nothing. What is typed after it is never thrown away.
fn is_accepted() -> bool {
    if let Err(error) = tcflush(stdin(), FlushArg::TCIFLUSH) {
        note(&format!("surety: the terminal cannot be read: {error}"));
        return false;
    }
    note(&format!("Type {YES} to accept exactly this:"));
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    read.is_ok() && line.trim() == YES
}

/// The account of the person at the terminal.
#[must_use]
pub fn person() -> String {
    let own = getuid();
    let named = User::from_uid(own).ok().flatten().map(|user| user.name);
    named.unwrap_or_else(|| format!("uid {own}"))
}
