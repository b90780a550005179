//! Checks of an older form: one line of text without a kind, which is inferred from the line.

use super::CheckKind;

/// Programs that make a line a command when their name is its first word and more words follow.
const PROGRAMS: &[&str] = &[
    "go",
    "npm",
    "pnpm",
    "yarn",
    "cargo",
    "python",
    "python3",
    "ruff",
    "git",
    "powershell",
    "pwsh",
    "make",
    "pytest",
    "eslint",
    "tsc",
    "golangci-lint",
];

/// Programs that are useful without arguments.
const RUN_ALONE: &[&str] = &["make", "pytest", "eslint", "tsc", "golangci-lint"];

/// Common file names without an extension.
const WELL_KNOWN_FILES: &[&str] = &["Makefile", "Dockerfile", "LICENSE"];

/// The kind inferred from a trimmed line.
pub(super) fn migrate(text: &str) -> CheckKind {
    if is_command(text) {
        CheckKind::CommandSuccess
    } else if is_file(text) {
        CheckKind::FileExists
    } else {
        CheckKind::OutputOnly
    }
}

fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    let known = PROGRAMS.iter().any(|name| name.eq_ignore_ascii_case(first));
    known && (words.next().is_some() || RUN_ALONE.contains(&text))
}

fn is_file(text: &str) -> bool {
    let extension = text.rsplit_once('.').map(|(_, extension)| extension);
    !text.contains(char::is_whitespace)
        && (text.contains('/')
            || text.starts_with('.')
            || WELL_KNOWN_FILES.contains(&text)
            || extension.is_some_and(|extension| extension.starts_with(char::is_alphabetic)))
}
