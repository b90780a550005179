//! Programs that checks name and that are not there.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::command::{is_shell_word, programs};
use surety_executor::tool::Environment;

use crate::failure::{Code, Failure};

/// What a shell does itself, besides the words that no program has.
const BUILTINS: [&str; 3] = ["!", ":", "["];

/// Refuses a check whose program is nowhere. `may_be_made` says whether a program inside the workspace may
/// still come to be, because a command runs before the checks; `present` asks for a path of the workspace.
///
/// # Errors
/// `program_missing`, naming the check and the program.
pub fn check_programs(
    checks: &[AcceptCheck],
    environment: &Environment,
    may_be_made: bool,
    present: impl Fn(&Path) -> bool,
) -> Result<(), Failure> {
    let commands = checks.iter().enumerate();
    for (index, check) in commands.filter(|(_, check)| check.kind == CheckKind::CommandSuccess) {
        // What a line means that only a shell can read is known when it runs.
        let Some(programs) = programs(&check.target) else { continue };
        let moves = programs.iter().any(|program| first(&program.argv) == "cd");
        for program in &programs {
            let name = first(&program.argv);
            let path = Path::new(name);
            let is_there = if is_shell_word(name) || BUILTINS.contains(&name) {
                true
            } else if path.is_absolute() {
                path.exists()
            } else if name.contains('/') {
                may_be_made || moves || present(path) || covers(check, path)
            } else {
                is_on_path(name, environment)
            };
            if !is_there {
                return Err(missing(index, &check.target, name));
            }
        }
    }
    Ok(())
}

/// Whether the overlay of a check has a file.
fn covers(check: &AcceptCheck, path: &Path) -> bool {
    let files = check.overlay.files();
    let path = path.strip_prefix(".").unwrap_or(path);
    files.is_some_and(|files| files.keys().any(|file| Path::new(file) == path))
}

fn first(argv: &[String]) -> &str {
    argv.first().map_or("", String::as_str)
}

fn is_on_path(name: &str, environment: &Environment) -> bool {
    let path = environment.get("PATH").unwrap_or_default();
    std::env::split_paths(path).any(|folder| {
        let file = folder.join(name);
        file.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

fn missing(index: usize, line: &str, program: &str) -> Failure {
    let message =
        format!("verify[{index}] ({line:?}) names the program {program:?}, which is not there");
    let advice = "Install it, or name another one; PATH is that of this process.";
    Failure::new(Code::ProgramMissing, message, advice).at(format!("verify[{index}]"))
}

#[cfg(test)]
mod tests {
    use surety_common::domain::check::{Author, read_checks};
    use surety_common::domain::json::{Value, parse};

    use super::*;

    #[test]
    fn a_missing_program_is_named_unless_it_may_come_to_be() {
        let environment = Environment::scrub([("PATH".into(), "/usr/bin:/bin".into())]);
        for (line, may_be_made, accepted) in [
            ("sh -c true", false, true),
            ("no-such-program-x run", false, false),
            ("true && no-such-program-x", true, false),
            ("cd sub && ./run", false, true),
            ("./run", false, false),
            ("./run", true, true),
            ("./there", false, true),
            ("/no/such/program", true, false),
            ("! no-such-program-x", false, true),
            ("A=1 no-such-program-x", false, false),
        ] {
            let check = format!(
                r#"[{{"kind":"command_success","target":{}}}]"#,
                Value::String(line.to_owned()).to_compact()
            );
            let value = parse(&check).unwrap().value;
            let (checks, _) = read_checks(&value, "verify", Author::Submitter).unwrap();
            let present = |path: &Path| path == Path::new("./there");
            let answer = check_programs(&checks, &environment, may_be_made, present);
            assert_eq!(answer.is_ok(), accepted, "{line}");
            if let Err(failure) = answer {
                assert!(
                    failure.to_text().starts_with("error[program_missing]: verify[0]"),
                    "{line}"
                );
            }
        }
    }
}
