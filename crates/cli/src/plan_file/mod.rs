//! A plan file: converts it to a request for a run.
//!
//! ```text
//!   text --YAML or JSON--> Value --split--> the plan, as JSON text, for the planner to read
//!                                      +--> goal, limits, policy, tools, workspace, repository, labels, driver, interactive
//! ```

mod content;
mod known;
mod near;
mod options;
mod overlay;
mod tools;
mod values;
mod yaml;

use std::io::Read;
use std::path::{Path, PathBuf};

use surety_common::domain::check::{Author, name_paths_of_plan, read_checks};
use surety_common::domain::json::{self, Value};
use surety_common::wire::v1;
use surety_planner::plan::standing_at;

use self::content::unreadable;
use self::known::know_steps;
use crate::failure::{Code, Failure};

pub use content::PlanFile;
pub(crate) use known::know_checks;
pub use near::nearest;
pub(crate) use near::unknown_key;
pub(crate) use options::IN_DOUBT;
pub(crate) use overlay::{ReadFile, read_beside, resolve, resolve_in_steps};

/// The keys of the plan itself.
pub const PLAN_KEYS: [&str; 6] = ["type", "title", "goal", "steps", "verify", "todos"];
/// The keys other than the plan's.
pub const ORDER_KEYS: [&str; 10] = [
    "goal",
    "limits",
    "plan",
    "policy",
    "tools",
    "workspace",
    "repository",
    "labels",
    "driver",
    "interactive",
];
/// Far larger than any plan that is accepted; a larger file is a mistake.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The text of a file, or of standard input for `-`.
///
/// # Errors
/// It cannot be read, is too large, or is not text.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    read_text_within(path, MOST_BYTES)
}

/// As [`read_text`], with another size limit in bytes.
///
/// # Errors
/// As [`read_text`].
pub fn read_text_within(path: &Path, most: u64) -> Result<String, Failure> {
    String::from_utf8(read_bytes_within(path, most)?).map_err(|error| {
        let message = format!("{} is not UTF-8 text: {error}", path.display());
        Failure::new(Code::FileUnusable, message, "Check that it is the right file.")
    })
}

/// The bytes of a file, or of standard input for `-`, with a size limit.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn read_bytes_within(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
    };
    let length = read.map_err(Failure::file(path))?;
    if u64::try_from(length).unwrap_or(u64::MAX) > most {
        return Err(Failure::new(
            Code::FileUnusable,
            format!("{} is larger than {most} bytes", path.display()),
            "Check that it is the right file.",
        ));
    }
    Ok(bytes)
}

/// Reads the plan file at a path, or from standard input for `-`.
///
/// # Errors
/// As [`read_text`] and [`read_plan_file`].
pub fn read_plan_file_at(path: &Path, workspace: Option<&Path>) -> Result<PlanFile, Failure> {
    let read = read_plan_file(&read_text(path)?, folder_of(path), workspace);
    read.map_err(|failure| failure.in_file(path))
}

/// Reads a file of YAML or JSON, or standard input for `-`.
///
/// # Errors
/// As [`read_text`], or it is neither YAML nor JSON.
pub(crate) fn read_value_at(path: &Path) -> Result<Value, Failure> {
    read_value(&read_text(path)?).map_err(|failure| failure.in_file(path))
}

/// Reads a plan file. Files of overlays are named by their paths from `folder`. In the workspace, else the one that the file
/// names, a check that is the path of a program alone is a command.
///
/// # Errors
/// It is neither YAML nor JSON, has an unknown key, or an invalid value; a file of an overlay cannot be read.
pub fn read_plan_file(
    text: &str,
    folder: &Path,
    workspace: Option<&Path>,
) -> Result<PlanFile, Failure> {
    split(read_value(text)?, &|path| read_beside(folder, path), &|named| match workspace {
        Some(workspace) => Some(workspace.to_owned()),
        None => named.map(|named| folder.join(named)),
    })
}

/// The folder that a plan file stands in.
pub fn folder_of(plan: &Path) -> &Path {
    plan.parent().unwrap_or_else(|| Path::new(""))
}

/// JSON is read by the services' own parser, everything else as YAML.
pub(crate) fn read_value(text: &str) -> Result<Value, Failure> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{')
        && let Ok(parsed) = json::parse(text)
    {
        return if parsed.duplicate_key {
            Err(unreadable("an object has the same key twice", "Keep one of them."))
        } else {
            Ok(parsed.value)
        };
    }
    yaml::parse(text)
}

/// Reads the options beside the plan; other keys are passed over.
pub(crate) fn read_options<'v>(
    members: impl Iterator<Item = (&'v str, &'v Value)>,
) -> Result<PlanFile, Failure> {
    let mut plan_file = PlanFile::default();
    for (key, value) in members {
        options::take(&mut plan_file, key, value)?;
    }
    Ok(plan_file)
}

fn split(
    value: Value,
    read: ReadFile<'_>,
    workspace: &dyn Fn(Option<&Path>) -> Option<PathBuf>,
) -> Result<PlanFile, Failure> {
    let Value::Object(members) = value else {
        return Err(unreadable(
            format!("the file holds no keys and values (it is of the type {})", value.kind()),
            "See examples/repair/plan.yaml for an example.",
        ));
    };
    let mut plan_file = PlanFile::default();
    let mut plan = Vec::new();
    for (key, mut value) in members {
        match key.as_str() {
            "verify" => {
                know_checks(&value, "verify")?;
                resolve(&mut value, read)?;
            }
            "steps" => {
                know_steps(&value)?;
                resolve_in_steps(&mut value, read)?;
            }
            _ => {}
        }
        if !PLAN_KEYS.contains(&key.as_str()) && !ORDER_KEYS.contains(&key.as_str()) {
            return Err(near::unknown_key("", &key, &[&PLAN_KEYS[..], &ORDER_KEYS].concat()));
        }
        if PLAN_KEYS.contains(&key.as_str()) {
            plan.push((key.clone(), value.clone()));
        }
        options::take(&mut plan_file, &key, &value)?;
    }
    if let Some(workspace) = workspace(plan_file.workspace.as_deref().map(Path::new)) {
        let look = |path: &str| standing_at(&workspace, Path::new(path));
        name_paths_of_plan(&mut plan, &look);
    }
    let has = |found: fn(&str) -> bool| plan.iter().any(|(key, _)| found(key));
    // A plan that a participant makes gets the checks when it comes; a script has no other plan than the file's.
    let comes_later =
        plan_file.driver != v1::Driver::Unspecified && plan_file.driver != v1::Driver::Script;
    let is_goal = has(|key| key == "goal") && !has(|key| key != "goal" && key != "verify");
    if plan_file.without_plan || (comes_later && is_goal) {
        plan_file.verify = checks_alone(&plan)?;
    } else {
        let is_plan = has(|key| key != "goal");
        plan_file.plan_text = is_plan.then(|| Value::Object(plan).to_compact());
    }
    Ok(plan_file)
}

/// The checks of a file without a plan, whose only other key of a plan is the goal.
fn checks_alone(plan: &[(String, Value)]) -> Result<Vec<v1::AcceptCheck>, Failure> {
    let of_plan = |(key, _): &&(String, Value)| !matches!(key.as_str(), "goal" | "verify");
    if let Some((key, _)) = plan.iter().find(of_plan) {
        let message = format!("`plan` is false, and the file has `{key}` of a plan");
        let advice = "Keep the goal and the checks (`verify`) only, or leave `plan` out.";
        return Err(Failure::new(Code::ValueInvalid, message, advice).at("plan"));
    }
    let Some((_, verify)) = plan.iter().find(|(key, _)| key == "verify") else {
        return Ok(Vec::new());
    };
    let (checks, _) = read_checks(verify, "verify", Author::Submitter).map_err(|problem| {
        let field = problem.field.unwrap_or_default();
        Failure::new(Code::ValueInvalid, problem.message, "").at(&field)
    })?;
    Ok(checks.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests;
