//! Words in the names of files and folders, which say what these are for.

/// Words in names of folders whose sources help tests.
const HELPERS: &[&str] = &[
    "assert",
    "factories",
    "factory",
    "fake",
    "fixture",
    "harness",
    "helper",
    "mock",
    "spec",
    "stub",
    "support",
    "test",
];
/// Words in the names of scripts that check.
pub(super) const CHECKING: &[&str] = &[
    "assert", "audit", "check", "compare", "e2e", "lint", "qa", "regress", "smoke", "spec",
    "suite", "test", "valid", "verify",
];
/// Folders of scripts.
pub(super) const SCRIPT_FOLDERS: &[&str] =
    &["ci", ".ci", "hack", "script", "scripts", "tool", "tools"];

/// Whether a folder's name says that it helps tests.
pub(super) fn is_helpers(folder: &str) -> bool {
    let lower = folder.rsplit('/').next().unwrap_or(folder).to_ascii_lowercase();
    HELPERS.iter().any(|word| lower.contains(word))
}
