//! Words in the names of files and folders, which say what these are for.

use super::language::language_of;

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
    "acceptance",
    "assert",
    "audit",
    "check",
    "compare",
    "e2e",
    "lint",
    "qa",
    "regress",
    "sanity",
    "smoke",
    "spec",
    "suite",
    "test",
    "valid",
    "verify",
];
/// Folders of scripts that check.
const CHECKING_FOLDERS: &[&str] = &[
    "acceptance",
    "check",
    "checks",
    "qa",
    "regression",
    "sanity",
    "scenario",
    "scenarios",
    "selftest",
    "smoke",
    "validation",
    "verification",
];
/// Folders of scripts.
pub(super) const SCRIPT_FOLDERS: &[&str] =
    &["ci", ".ci", "hack", "script", "scripts", "tool", "tools"];

/// Whether a folder's name says that it helps tests.
pub(super) fn is_helpers(folder: &str) -> bool {
    let lower = folder.rsplit('/').next().unwrap_or(folder).to_ascii_lowercase();
    HELPERS.iter().any(|word| lower.contains(word))
}

/// Words in the names of scripts that make something: such a script may be what a run is about.
pub(super) const MAKING: &[&str] = &[
    "build", "bundle", "compile", "deploy", "fmt", "format", "gen", "install", "make", "migrat",
    "prepare", "release", "seed", "serve", "setup", "start",
];

/// Words in the names of scripts that write something out.
const WRITING: &[&str] = &[
    "clean", "convert", "count", "doc", "dump", "export", "extract", "import", "list", "print",
    "publish", "render", "report", "show", "stats", "summary", "sync",
];

/// Whether a script writes out by its name what a target of this name is for.
pub(super) fn writes_out(path: &str, target: &str) -> bool {
    let is_one = |word: &&str| has_part(path, word) && has_part(target, word);
    !has_word(path, CHECKING) && !has_word(target, CHECKING) && WRITING.iter().any(is_one)
}

/// Whether a whole part of the name of a file is this word, or its plural: `static` has no `stat`.
fn has_part(path: &str, word: &str) -> bool {
    let stem = stem_of(path);
    let mut parts = stem.split(|letter: char| !letter.is_alphanumeric());
    parts.any(|part| part == word || part.strip_suffix('s') == Some(word))
}

/// Whether a script is a part of the check by its name or its folder.
pub(super) fn is_of_checks(path: &str) -> bool {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let in_folder = above.split('/').any(|folder| SCRIPT_FOLDERS.contains(&folder));
    let is_ci = name.split_once('.').map_or(name, |(stem, _)| stem).eq_ignore_ascii_case("ci");
    let checks = above.split('/').any(|folder| CHECKING_FOLDERS.contains(&folder));
    has_word(path, CHECKING) || is_ci || (in_folder || checks) && !has_word(path, MAKING)
}

/// Whether a script of a shell lies in a folder of continuous integration. What only such scripts read into themselves
/// is a part of the check.
pub fn is_of_ci(path: &str) -> bool {
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    language_of(path) == Some("shell") && above.split('/').any(|it| matches!(it, "ci" | ".ci"))
}

/// Whether the name of a file has one of these words.
pub(super) fn has_word(path: &str, words: &[&str]) -> bool {
    let stem = stem_of(path);
    words.iter().any(|word| stem.contains(word))
}

/// The name of a file up to its first dot, in small letters.
fn stem_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once('.').map_or(name, |(stem, _)| stem).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_writes_out_by_whole_words_of_its_name() {
        for (path, target, expected) in [
            ("scripts/report.py", "report", true),
            ("scripts/gen-docs.sh", "docs", true),
            ("scripts/print_stats.sh", "stats", true),
            ("scripts/static-analysis.sh", "static", false),
            ("scripts/docker.sh", "docker", false),
            ("scripts/doctor.sh", "doctor", false),
            ("scripts/report-test.py", "report", false),
        ] {
            assert_eq!(writes_out(path, target), expected, "{path} {target}");
        }
    }
}
