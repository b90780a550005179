//! Checks written as one line of text without a kind, which is inferred from the line.
//!
//! A plan's text is read as it always was: what is neither a command nor a file is an `output_only`. In the
//! text of a user or an operator that would turn a mistyped command into a check that always holds, so
//! there it is refused, and more programs are known.

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

/// Further programs that make a line of a user or an operator a command.
const MORE_PROGRAMS: &[&str] = &[
    "bash",
    "bazel",
    "bun",
    "bundle",
    "cabal",
    "cmake",
    "composer",
    "ctest",
    "dart",
    "deno",
    "docker",
    "dotnet",
    "dune",
    "flutter",
    "gradle",
    "gradlew",
    "hatch",
    "helm",
    "just",
    "lein",
    "mix",
    "mvn",
    "mvnw",
    "ninja",
    "node",
    "nox",
    "npx",
    "phpunit",
    "poetry",
    "rake",
    "rspec",
    "sbt",
    "sh",
    "stack",
    "swift",
    "task",
    "terraform",
    "tox",
    "uv",
    "zig",
    "zsh",
];

/// Extensions of scripts of shells, which have no other use than to be run.
const SHELL_SCRIPTS: &[&str] = &["bash", "bat", "cmd", "fish", "ksh", "ps1", "sh", "zsh"];
/// Whether a path without more words is that of a script of a shell.
pub(super) fn is_shell_script(text: &str) -> bool {
    let extension = text.rsplit_once('.').map_or("", |(_, extension)| extension);
    !text.contains(char::is_whitespace) && SHELL_SCRIPTS.contains(&extension)
}

/// Extensions of other scripts.
const SCRIPTS: &[&str] = &["cjs", "js", "lua", "mjs", "php", "pl", "py", "rb", "ts"];

/// The kind inferred from a trimmed line of a user or an operator; none when it is neither a command nor a
/// file, or may be either. A path that more words follow is a command, and so is one that names a script.
pub(super) fn read_line(text: &str) -> Option<CheckKind> {
    let mut words = text.split_whitespace().skip_while(|word| is_assignment(word));
    let program = words.next()?;
    let more = words.next().is_some();
    let known = PROGRAMS.iter().chain(MORE_PROGRAMS).any(|name| name.eq_ignore_ascii_case(program));
    if known || is_path(program) && (more || names_script(program)) {
        return Some(CheckKind::CommandSuccess);
    }
    (is_file(text) && !may_be_program(text)).then_some(CheckKind::FileExists)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}

pub(super) fn is_path(word: &str) -> bool {
    word.contains('/') && !word.contains("://")
}

/// Whether a path without more words may be meant to be run: the reader does not see the file's mode, and a program
/// that is only looked for always holds. A name with a capital at its front, or a glob, is that of no program.
fn may_be_program(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_data = name.is_empty()
        || name.starts_with(|first: char| first == '.' || first.is_uppercase())
        || path.contains(['*', '?', '[']);
    match name.rsplit_once('.') {
        _ if is_data => false,
        Some((_, extension)) => {
            SHELL_SCRIPTS.contains(&extension)
                || path.starts_with("./") && SCRIPTS.contains(&extension)
        }
        None => path.contains('/'),
    }
}

/// Whether a path without more words is run rather than found.
fn names_script(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let in_bin = path.rsplit('/').nth(1).is_some_and(|folder| folder == "bin");
    match name.rsplit_once('.') {
        Some((_, extension)) => path.starts_with("./") && SHELL_SCRIPTS.contains(&extension),
        None => {
            !name.is_empty()
                && !WELL_KNOWN_FILES.contains(&name)
                && (in_bin || path.starts_with("./"))
        }
    }
}

/// The kind inferred from a trimmed line of a plan.
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
