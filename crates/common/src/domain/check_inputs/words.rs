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

/// Words in the names of scripts that make something: such a script may be what a run is about.
pub(super) const MAKING: &[&str] = &[
    "build", "bundle", "compile", "deploy", "fmt", "format", "gen", "install", "make", "migrat",
    "prepare", "release", "seed", "serve", "setup", "start",
];

/// Words in the names of scripts that write something out.
const WRITING: &[&str] = &[
    "clean", "convert", "count", "doc", "dump", "export", "extract", "import", "list", "print",
    "publish", "render", "report", "show", "stat", "summar", "sync",
];

/// Whether a script writes out by its name what a target of this name is for.
pub(super) fn writes_out(path: &str, target: &str) -> bool {
    let is_one = |word: &&str| has_word(path, &[*word]) && has_word(target, &[*word]);
    !has_word(path, CHECKING) && !has_word(target, CHECKING) && WRITING.iter().any(is_one)
}

/// Whether a script is a part of the check by its name or its folder.
pub(super) fn is_of_checks(path: &str) -> bool {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let in_folder = above.split('/').any(|folder| SCRIPT_FOLDERS.contains(&folder));
    let is_ci = name.split_once('.').map_or(name, |(stem, _)| stem).eq_ignore_ascii_case("ci");
    has_word(path, CHECKING) || is_ci || in_folder && !has_word(path, MAKING)
}

/// Whether the name of a file has one of these words.
pub(super) fn has_word(path: &str, words: &[&str]) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem).to_ascii_lowercase();
    words.iter().any(|word| stem.contains(word))
}
