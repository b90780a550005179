//! What the runner looks at before the gate decides: purely, from the checks and the policy.

use surety_common::domain::check::{AcceptCheck, changed_paths};
use surety_common::domain::run::VerifyCommands;

/// One thing the runner does before the gate decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// Compares the workspace with what it was before the run, at paths that match these globs, or at
    /// all that are not ignored.
    Change(Vec<String>),
    /// Runs a command that a check names, exactly as written.
    Command(String),
    /// Runs the project's own test command, because files were written and no check names one.
    ProjectTests,
    /// Looks whether a path is there.
    File(String),
    /// Looks for a text in a file.
    Content {
        /// The file.
        path: String,
        /// The text.
        needle: String,
    },
}

/// What a plan's checks ask the runner to do, each thing once. What changed is looked at first, because
/// commands write too; files are looked at last, because commands may make them.
pub fn observations(
    checks: &[AcceptCheck],
    policy: VerifyCommands,
    wrote_files: bool,
) -> Vec<Observation> {
    let mut observations: Vec<Observation> = Vec::new();
    if policy == VerifyCommands::Runner {
        let changes = checks.iter().filter(|check| check.kind == "workspace_change");
        observations.extend(changes.map(|check| Observation::Change(changed_paths(check))));
        let commands = || checks.iter().filter(|check| check.kind == "command_success");
        let required = commands().filter(|check| check.required);
        observations.extend(required.map(|check| Observation::Command(check.target.clone())));
        if wrote_files && commands().next().is_none() {
            observations.push(Observation::ProjectTests);
        }
    }
    observations.extend(checks.iter().filter_map(of_check));
    let mut once = Vec::new();
    observations.retain(|observation| {
        let new = !once.contains(observation);
        once.push(observation.clone());
        new
    });
    observations
}

fn of_check(check: &AcceptCheck) -> Option<Observation> {
    match check.kind.as_str() {
        "file_exists" => Some(Observation::File(check.target.clone())),
        "content_contains" => {
            let needle = check.params.get("contains")?.clone();
            Some(Observation::Content { path: check.target.clone(), needle })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::check::{Author, read_checks};
    use surety_common::domain::json;

    #[test]
    fn the_checks_and_the_policy_say_what_is_looked_at() {
        let command = || Observation::Command("make test".to_owned());
        let file = || Observation::File("a".to_owned());
        let optional = r#"[{"kind":"command_success","target":"make","required":false}]"#;
        for (checks, policy, wrote, expected) in [
            (
                r#"["make test","./a","make test"]"#,
                VerifyCommands::Runner,
                true,
                vec![command(), Observation::File("./a".to_owned())],
            ),
            (
                r#"["make test","a.txt"]"#,
                VerifyCommands::ReceiptsOnly,
                true,
                vec![Observation::File("a.txt".to_owned())],
            ),
            ("[]", VerifyCommands::Runner, true, vec![Observation::ProjectTests]),
            ("[]", VerifyCommands::Runner, false, vec![]),
            (optional, VerifyCommands::Runner, true, vec![]),
            (
                r#"[{"kind":"file_exists","target":"a"}]"#,
                VerifyCommands::Runner,
                true,
                vec![Observation::ProjectTests, file()],
            ),
            (
                r#"["make test",{"kind":"workspace_change"},
                    {"kind":"workspace_change","params":{"paths":"src/**, {a,b}.txt"}}]"#,
                VerifyCommands::Runner,
                true,
                vec![
                    Observation::Change(vec![]),
                    Observation::Change(vec!["src/**".to_owned(), "{a,b}.txt".to_owned()]),
                    command(),
                ],
            ),
            (r#"[{"kind":"workspace_change"}]"#, VerifyCommands::ReceiptsOnly, true, vec![]),
        ] {
            let list = json::parse(checks).unwrap().value;
            let (list, _) = read_checks(&list, "verify", Author::Model).unwrap();
            assert_eq!(observations(&list, policy, wrote), expected, "{checks}");
        }
    }
}
