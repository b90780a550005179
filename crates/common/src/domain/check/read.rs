//! Reads checks as people and models write them: objects, plain strings, one or a list.

use super::legacy::{is_shell_script, migrate, read_line};
use super::normal::collapse;
use super::overlay::read_overlay;
use super::overlay_rules::validate_overlay;
use super::sandbox_param::validate_sandbox;
use super::test_bounds;
use super::{AcceptCheck, CheckKind, FileType, Match, Overlay, Owner};
use crate::domain::command::CommandLine;
use crate::domain::fields::{TypedFields, item_path, join, mismatch};
use crate::domain::json::Value;
use crate::domain::problem::{Code, Problem, Warning, WarningCode};
use std::collections::{BTreeMap, HashSet};

/// The keys of a check. A plan may have others, which are ignored.
pub const CHECK_KEYS: &[&str] =
    &["id", "kind", "target", "match", "required", "params", "owner", "overlay", "overlay_digest"];

/// The prefix of ids that are reserved for the gate.
const RESERVED: &str = "system.";

/// The author of the text, which decides the owner that a check may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// A model: every check is owned by the plan, whatever the text says.
    Model,
    /// The user that the run works for: as written, `user` by default, never `operator`.
    Submitter,
    /// The operator of the service: as written, `operator` by default.
    Operator,
    /// This service, reading its own output: as written, `plan` by default.
    Service,
}

/// Checks with valid types that may still break a rule. A plan reports its own faults before those.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScannedChecks {
    /// The checks, normalized.
    pub checks: Vec<AcceptCheck>,
    /// What the reader corrected.
    pub warnings: Vec<Warning>,
    /// The first broken rule.
    pub refused: Option<Problem>,
}

/// Reads a list of checks: objects, strings, or both; a single one; or null for none.
///
/// # Errors
/// `type_mismatch` first, wherever it is; then check by check `check_unreadable` for a text of a user or
/// an operator, `check_id_reserved`, `check_kind_missing`, `match_unknown`, `check_target_empty`,
/// `check_needle_empty`, `sandbox_not_allowed`, `overlay_not_allowed`, `too_large`, `overlay_path_invalid`.
pub fn read_checks(
    value: &Value,
    path: &str,
    author: Author,
) -> Result<(Vec<AcceptCheck>, Vec<Warning>), Problem> {
    let scanned = scan_checks(value, path, author)?;
    match scanned.refused {
        Some(problem) => Err(problem),
        None => Ok((scanned.checks, scanned.warnings)),
    }
}

/// As [`read_checks`], but validates only the types, and returns a broken rule.
///
/// # Errors
/// `type_mismatch`.
pub fn scan_checks(value: &Value, path: &str, author: Author) -> Result<ScannedChecks, Problem> {
    let mut scan = Scan { author, legacy: HashSet::new(), read: ScannedChecks::default() };
    match value {
        Value::Null => {}
        Value::String(_) | Value::Object(_) => {
            let wrapped = Warning::at(WarningCode::SingleCheckWrapped, path);
            scan.read.warnings.push(wrapped);
            scan.item(value, &item_path(path, 0))?;
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                scan.item(item, &item_path(path, at))?;
            }
        }
        Value::Bool(_) | Value::Number(_) => {
            return Err(mismatch(path, "a list of checks", value));
        }
    }
    let mut read = scan.read;
    let (checks, dropped) = collapse(read.checks, path);
    read.checks = checks;
    read.warnings.extend(dropped);
    Ok(read)
}

/// Validates one normalized check: its id, its kind, its target, its needle, its overlay.
///
/// # Errors
/// `check_id_reserved`, `check_kind_missing`, `check_target_empty`, `type_mismatch` for an unknown
/// `params.type`, `check_needle_empty`, `type_mismatch` and `sandbox_not_allowed` for `params.sandbox`,
/// `overlay_not_allowed`, `too_large`, `overlay_path_invalid`, `type_mismatch` for a bound in the params, the first in
/// this order.
pub fn validate_check(check: &AcceptCheck, path: &str) -> Result<(), Problem> {
    validate_name(check, path)?;
    validate_object(check, path)
}

fn validate_name(check: &AcceptCheck, path: &str) -> Result<(), Problem> {
    let id = check.id.to_ascii_lowercase();
    if id.starts_with(RESERVED) {
        return Err(Problem::at(
            Code::CheckIdReserved,
            join(path, "id"),
            format!("ids that begin with {RESERVED} are reserved for the gate; choose another"),
        ));
    }
    if check.kind.is_missing() {
        return Err(Problem::at(
            Code::CheckKindMissing,
            join(path, "kind"),
            "the check names no kind; name one, such as command_success or file_exists",
        ));
    }
    Ok(())
}

fn validate_object(check: &AcceptCheck, path: &str) -> Result<(), Problem> {
    let lacks = match check.kind {
        CheckKind::CommandSuccess => {
            CommandLine::parse(&check.target).is_empty().then_some("a command to run")
        }
        CheckKind::FileExists | CheckKind::ContentContains => {
            check.target.is_empty().then_some("a path")
        }
        CheckKind::ToolFact => {
            let named = ["tool", "scope"].map(|key| check.params.contains_key(key));
            let any = named.contains(&true) || !check.target.is_empty();
            (!any).then_some("a tool or a scope in its params")
        }
        CheckKind::OutputOnly
        | CheckKind::WorkspaceChange
        | CheckKind::ActionReport
        | CheckKind::Expression
        | CheckKind::HttpProbe
        | CheckKind::Unknown(_) => None,
    };
    if let Some(lacks) = lacks {
        return Err(Problem::at(
            Code::CheckTargetEmpty,
            join(path, "target"),
            format!("a {} check needs {lacks}", check.kind),
        ));
    }
    if check.kind == CheckKind::FileExists && FileType::of(check).is_none() {
        let known = FileType::ALL.map(FileType::as_str).join(", ");
        return Err(Problem::at(
            Code::TypeMismatch,
            join(path, "params.type"),
            format!("a file_exists check finds no such type of file; use one of {known}"),
        ));
    }
    let needle = check.params.get("contains");
    if check.kind == CheckKind::ContentContains && needle.is_none_or(|text| text.trim().is_empty())
    {
        return Err(Problem::at(
            Code::CheckNeedleEmpty,
            join(path, "params.contains"),
            "a content_contains check needs the text in params.contains",
        ));
    }
    validate_sandbox(check, path)?;
    validate_overlay(check, path)?;
    validate_bounds(check, path)
}

fn validate_bounds(check: &AcceptCheck, path: &str) -> Result<(), Problem> {
    match test_bounds::unreadable(check) {
        None => Ok(()),
        Some((key, expected)) => Err(Problem::at(
            Code::TypeMismatch,
            join(path, &format!("params.{key}")),
            format!("params.{key} needs {expected}"),
        )),
    }
}

struct Scan<'a> {
    author: Author,
    /// The strings that were migrated; a repeated one is dropped.
    legacy: HashSet<&'a str>,
    read: ScannedChecks,
}

impl<'a> Scan<'a> {
    fn item(&mut self, item: &'a Value, path: &str) -> Result<(), Problem> {
        match item {
            Value::String(text) => self.text(text.trim(), path),
            Value::Object(_) => return self.object(item, path),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Err(mismatch(path, "a check", item));
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &'a str, path: &str) {
        let is_others = matches!(self.author, Author::Submitter | Author::Operator);
        if text.is_empty() && is_others {
            return self.refuse(blank(path));
        }
        if text.is_empty() || !self.legacy.insert(text) {
            return;
        }
        let kind = match self.author {
            Author::Model | Author::Service => migrate(text),
            Author::Submitter | Author::Operator => match read_line(text) {
                Some(kind) => kind,
                None => return self.refuse(unreadable(text, path)),
            },
        };
        let migrated = Warning::at(WarningCode::LegacyCheckMigrated, path);
        self.read.warnings.push(migrated);
        self.read.checks.push(AcceptCheck {
            id: String::new(),
            kind,
            target: text.to_owned(),
            r#match: Match::default(),
            required: true,
            params: BTreeMap::new(),
            owner: default_owner(self.author),
            overlay: Overlay::default(),
        });
    }

    /// Keeps the first broken rule.
    fn refuse(&mut self, problem: Problem) {
        self.read.refused.get_or_insert(problem);
    }

    fn object(&mut self, value: &'a Value, path: &str) -> Result<(), Problem> {
        let warnings = &mut self.read.warnings;
        let fields = TypedFields::of(value, path, CHECK_KEYS, warnings)?;
        let id = fields.id("id", warnings)?;
        let kind = CheckKind::from_text(&fields.text("kind")?);
        let target = fields.text("target")?;
        let match_word = fields.text("match")?;
        let required = fields.truth("required", true)?;
        let params = read_params(&fields, warnings)?;
        let owner = read_owner(&fields, self.author)?;
        let overlay = match fields.get("overlay") {
            Some(value) => read_overlay(value, &fields.path("overlay"))?,
            None => Overlay::stored(fields.text("overlay_digest")?),
        };
        let by = read_match(&match_word, &fields.path("match"));
        let check = AcceptCheck {
            id,
            kind,
            target,
            r#match: by.as_ref().copied().unwrap_or_default(),
            required,
            params,
            owner,
            overlay,
        }
        .normalised();
        if self.read.refused.is_none() {
            self.read.refused = validate_name(&check, path)
                .and(by.map(|_| ()))
                .and_then(|()| validate_object(&check, path))
                .err();
        }
        self.read.checks.push(check);
        Ok(())
    }
}

fn blank(path: &str) -> Problem {
    let message =
        "a check without text asks for nothing; name a command or a file, or leave it out";
    Problem::at(Code::CheckUnreadable, path, message)
}

fn unreadable(text: &str, path: &str) -> Problem {
    let run = match is_shell_script(text) {
        true => format!("{} to run it, ", Value::String(format!("sh {text}")).to_compact()),
        false => String::new(),
    };
    let text = Value::String(text.to_owned()).to_compact();
    let message = format!(
        "{text} is neither a command that starts with a known program nor a file, or may be both; write {run}\
         {{\"kind\": \"command_success\", \"target\": {text}}} for a command, \
         {{\"kind\": \"file_exists\", \"target\": {text}}} for a file, or \
         {{\"kind\": \"output_only\"}} where an answer is enough"
    );
    Problem::at(Code::CheckUnreadable, path, message)
}

fn read_match(word: &str, path: &str) -> Result<Match, Problem> {
    if word.is_empty() {
        return Ok(Match::default());
    }
    Match::from_text(&word.to_ascii_lowercase()).ok_or_else(|| {
        let message = format!("{word:?} is not a match mode; use prefix, exact or contains");
        Problem::at(Code::MatchUnknown, path, message)
    })
}

/// The params as texts. Of keys that are equal once trimmed, the one that needed no trimming wins,
/// else the last.
fn read_params(
    fields: &TypedFields<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<String, String>, Problem> {
    let path = fields.path("params");
    let Some(value) = fields.get("params") else {
        return Ok(BTreeMap::new());
    };
    let members = value.as_object().ok_or_else(|| mismatch(&path, "an object", value))?;
    let mut params = BTreeMap::new();
    for (key, value) in members {
        let path = join(&path, key);
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => {
                warnings.push(Warning::at(WarningCode::ParamStringified, path));
                value.to_compact()
            }
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(mismatch(&path, "text", value));
            }
        };
        let name = key.trim();
        if name == key || !members.iter().any(|(other, _)| other == name) {
            params.insert(name.to_owned(), text);
        }
    }
    Ok(params)
}

const fn default_owner(author: Author) -> Owner {
    match author {
        Author::Model | Author::Service => Owner::Plan,
        Author::Submitter => Owner::User,
        Author::Operator => Owner::Operator,
    }
}

fn read_owner(fields: &TypedFields<'_>, author: Author) -> Result<Owner, Problem> {
    if author == Author::Model {
        return Ok(Owner::Plan);
    }
    let word = fields.text("owner")?;
    if word.is_empty() {
        return Ok(default_owner(author));
    }
    let refused = |message| Problem::at(Code::TypeMismatch, fields.path("owner"), message);
    let owner = Owner::from_text(&word)
        .ok_or_else(|| refused(format!("{word:?} is not an owner; use plan, user or operator")))?;
    if owner == Owner::Operator && author == Author::Submitter {
        let message = "only an operator may write a check for the operator; leave the owner out";
        return Err(refused(message.to_owned()));
    }
    Ok(owner)
}
