//! Checks written as one path: what stands there in the workspace says whether it is a command, a file or a folder, where the
//! name alone does not.

use super::CheckKind;
use super::legacy::{is_path, read_line};
use crate::domain::json::Value;

/// What stands at a path of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// A file that may be run.
    Program,
    /// A file that is no program: it is not executable, and no script that may have lost its mode.
    Data,
    /// A folder.
    Folder,
}

/// Looks at a path of a workspace. None where nothing of these stands there, and where that is not known.
pub type Look<'l> = &'l dyn Fn(&str) -> Option<Standing>;

/// Writes each text of a user or an operator that is a path alone as the check that it is, where what stands there tells.
pub fn name_paths(checks: &mut Value, look: Look<'_>) {
    match checks {
        Value::Array(items) => items.iter_mut().for_each(|item| name_paths(item, look)),
        Value::String(text) => {
            if let Some(check) = check_of(text.trim(), look) {
                *checks = check;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

/// As [`name_paths`], for the checks of a plan and of its steps.
pub fn name_paths_of_plan(plan: &mut [(String, Value)], look: Look<'_>) {
    for (key, value) in plan {
        match (key.as_str(), value) {
            ("verify", checks) => name_paths(checks, look),
            ("steps", Value::Array(steps)) => {
                for step in steps {
                    if let Value::Object(members) = step {
                        let own = members.iter_mut().filter(|(key, _)| key == "verify");
                        own.for_each(|(_, checks)| name_paths(checks, look));
                    }
                }
            }
            _ => {}
        }
    }
}

fn check_of(text: &str, look: Look<'_>) -> Option<Value> {
    let is_one = !text.is_empty() && !text.contains(char::is_whitespace) && !text.contains("://");
    let read = read_line(text);
    // The name of a program without a folder is looked for in the PATH.
    let is_command = read == Some(CheckKind::CommandSuccess);
    if !is_one || is_command && !is_path(text) {
        return None;
    }
    let folder = ("params", Value::Object(vec![("type".to_owned(), string("folder"))]));
    let (kind, more) = match (look(text)?, read) {
        (Standing::Program, None) if is_path(text) => (CheckKind::CommandSuccess, None),
        (Standing::Data, None | Some(CheckKind::CommandSuccess)) => (CheckKind::FileExists, None),
        (Standing::Folder, _) if is_path(text) || text.starts_with('.') => {
            (CheckKind::FileExists, Some(folder))
        }
        _ => return None,
    };
    let members = [("kind", string(kind.as_str())), ("target", string(text))];
    let members = members.into_iter().chain(more);
    Some(Value::Object(members.map(|(key, value)| (key.to_owned(), value)).collect()))
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str, standing: Option<Standing>) -> String {
        let mut checks = Value::Array(vec![string(text)]);
        name_paths(&mut checks, &|_| standing);
        checks.to_compact()
    }

    #[test]
    fn a_path_alone_is_what_stands_there() {
        use Standing::{Data, Folder, Program};
        let command = Some(r#"{"kind":"command_success","target":""#);
        let file = Some(r#"{"kind":"file_exists","target":""#);
        let folder = Some(r#","params":{"type":"folder"}}"#);
        for (text, standing, part) in [
            ("scripts/test", Program, command),
            ("tools/check.sh", Program, command),
            ("scripts/test", Data, file),
            ("bin/tool", Data, file),
            ("./run", Data, file),
            ("README", Data, file),
            (".github/workflows", Folder, folder),
            (".github", Folder, folder),
            ("docs/", Folder, folder),
            ("src/app.py", Program, None),
            ("test.sh", Program, None),
            ("docs", Folder, None),
            ("make", Data, None),
            ("./run", Program, None),
            ("sh run", Data, None),
            ("http://a/b", Data, None),
        ] {
            let found = named(text, Some(standing));
            let unchanged = Value::Array(vec![string(text)]).to_compact();
            match part {
                Some(part) => assert!(found.contains(part), "{text}: {found}"),
                None => assert_eq!(found, unchanged, "{text}"),
            }
            assert_eq!(named(text, None), unchanged);
        }
    }
}
