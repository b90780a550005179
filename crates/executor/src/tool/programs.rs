//! Programs that the lines of checks name and that are not there.

use super::Environment;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surety_common::domain::command::{Program, is_shell_word, programs};
use surety_common::domain::shell_line::{Segment, segments};

/// What a shell does itself, besides the words that no program has.
const BUILTINS: [&str; 6] = ["!", ":", "[", "getopts", "hash", "times"];
/// What lets a line go on after a program that failed to start, or may define what a word means.
const SEVERAL: &[char] = &[';', '\n', '`', '(', ')', '{', '}', '\\'];
/// The variable with the folders of programs.
const PATH: &str = "PATH";

/// The first program of a line that is nowhere; of a line that only a shell can read, where it only pipes, redirects and joins
/// by `&&`. `is_there` is asked about a program that is named by its path.
pub fn missing_program(
    line: &str,
    environment: &Environment,
    is_there: impl Fn(&Path) -> bool,
) -> Option<String> {
    let programs = programs(line).or_else(|| piped(line))?;
    let moves = programs.iter().any(|program| name_of(program) == "cd");
    let is_missing = |(part, program): &(usize, &Program)| {
        let name = name_of(program);
        let path = Path::new(name);
        if is_shell_word(name) || BUILTINS.contains(&name) {
            false
        } else if name.contains('/') {
            // What an earlier part of the line may make is not there yet.
            *part == 0 && !(moves && path.is_relative() || is_there(path))
        } else {
            let has_own_path = program.environment.iter().any(|(name, _)| name == PATH);
            !has_own_path && !is_on_path(name, environment)
        }
    };
    let found = programs.iter().enumerate().find(is_missing);
    found.map(|(_, program)| name_of(program).to_owned())
}

/// The programs of a line of pipes and redirections; none for other lines.
fn piped(line: &str) -> Option<Vec<Program>> {
    let joins = line.replace("&&", " ").replace(">&", ">").replace("&>", ">");
    if line.contains(SEVERAL) || line.contains("||") || joins.contains('&') {
        return None;
    }
    let is_plain = |word: &String| !word.contains(['$', '*', '?', '~']);
    let found = segments(line).into_iter().filter(|segment| !segment.conditional);
    let program = |segment: Segment| {
        let assigned = segment.others.iter().filter_map(|other| other.split_once('='));
        let environment =
            assigned.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        segment
            .words
            .first()
            .is_some_and(is_plain)
            .then_some(Program { environment, argv: segment.words })
    };
    Some(found.filter_map(program).collect())
}

/// What to write instead of a word of bash, which `sh` does not have everywhere; none for other words.
pub fn word_of_bash(program: &str) -> Option<&'static str> {
    match program {
        "[[" => Some(
            "it is a word of bash; write `[ ... ]`, or start bash with the line: bash -c '[[ ... ]]'",
        ),
        "declare" | "let" | "mapfile" | "readarray" | "shopt" | "typeset" => {
            Some("it is a word of bash; start bash with the line: bash -c '...'")
        }
        _ => None,
    }
}

/// The folders in which programs are looked for.
pub fn program_folders(environment: &Environment) -> Vec<PathBuf> {
    std::env::split_paths(environment.get(PATH).unwrap_or_default()).collect()
}

fn name_of(program: &Program) -> &str {
    program.argv.first().map_or("", String::as_str)
}

fn is_on_path(name: &str, environment: &Environment) -> bool {
    program_folders(environment).iter().any(|folder| {
        let found = folder.join(name).metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_nowhere_is_named() {
        let environment = Environment::scrub([("PATH".into(), "/usr/bin:/bin".into())]);
        for (line, missing) in [
            ("sh -c true", None),
            ("no-such-program-x run", Some("no-such-program-x")),
            ("true && no-such-program-x", Some("no-such-program-x")),
            ("cd sub && ./run", None),
            ("./run", Some("./run")),
            ("./there", None),
            ("/no/such/program", Some("/no/such/program")),
            ("cc -o /tmp/no-such-x x.c && /tmp/no-such-x", None),
            ("make bin/m && ./bin/m", None),
            ("! no-such-program-x", None),
            ("cat a | no-such-program-x", Some("no-such-program-x")),
            ("no-such-program-x 2>&1 | tail -1", Some("no-such-program-x")),
            ("sh -c true > log && no-such-program-x < log", Some("no-such-program-x")),
            ("cat a | PATH=bin no-such-program-x", None),
            ("cat a | $TOOL", None),
            ("cat a | ./there | ./run", None),
            ("cat a | sed 's/(a)/b/' | no-such-program-x", None),
            ("test -f a && no-such-program-x | cat", None),
            ("no-such-program-x | cat || true", None),
            ("no-such-program-x | cat; true", None),
            ("f() { no-such-program-x; }; f | cat", None),
            ("A=1 no-such-program-x", Some("no-such-program-x")),
            ("PATH=bin no-such-program-x", None),
            ("[[ -f a ]]", Some("[[")),
        ] {
            let is_there = |path: &Path| path == Path::new("./there");
            let found = missing_program(line, &environment, is_there);
            assert_eq!(found.as_deref(), missing, "{line}");
            let is_word = found.as_deref().and_then(word_of_bash).is_some();
            assert_eq!(is_word, missing == Some("[["), "{line}");
        }
    }
}
