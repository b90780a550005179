//! Checks that are a path alone: only the mode of the file tells whether it is a command.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use surety_common::domain::check::{CheckKind, is_path_of_either};
use surety_common::domain::json::Value;

/// Writes such a path as a command, where it is that of a program.
pub(crate) fn name_commands(checks: &mut Value, is_executable: &dyn Fn(&Path) -> bool) {
    match checks {
        Value::Array(items) => items.iter_mut().for_each(|item| name_commands(item, is_executable)),
        Value::String(text) => {
            let path = text.trim();
            if is_path_of_either(path) && is_executable(Path::new(path)) {
                let members = [("kind", CheckKind::CommandSuccess.as_str()), ("target", path)];
                let member =
                    |(key, text): (&str, &str)| (key.to_owned(), Value::String(text.to_owned()));
                *checks = Value::Object(members.map(member).to_vec());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

/// As [`name_commands`], for the checks of a plan and of its steps.
pub(super) fn name_commands_of(plan: &mut [(String, Value)], workspace: &Path) {
    let is_program = |path: &Path| is_executable(workspace, path);
    for (key, value) in plan {
        match (key.as_str(), value) {
            ("verify", checks) => name_commands(checks, &is_program),
            ("steps", Value::Array(steps)) => {
                let members = steps.iter_mut().filter_map(|step| match step {
                    Value::Object(members) => Some(members),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_) => None,
                });
                for (_, checks) in members.flatten().filter(|(key, _)| key == "verify") {
                    name_commands(checks, &is_program);
                }
            }
            _ => {}
        }
    }
}

/// Whether a path, relative to a folder or absolute, is that of a program.
#[must_use]
pub fn is_executable(folder: &Path, path: &Path) -> bool {
    let found = fs::metadata(folder.join(path));
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
