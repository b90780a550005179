//! The file with the checks of a verification.

use std::path::{Path, PathBuf};

use surety_common::domain::check::{AcceptCheck, Author, Look, Owner, name_paths, read_checks};
use surety_common::domain::json::{Value, sha256_hex};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::Plan;
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::problem::{Code as ProblemCode, Problem, Warning, WarningCode};
use surety_common::domain::run::{Policy, VerifyCommands};
use surety_common::domain::verification::check_verifications;
use surety_planner::plan::parse_plan;
use surety_planner::{read_own_limits, read_policy};

use crate::failure::{Code, Failure};
use crate::plan_file::{
    PlanFile, ReadFile, know_checks, read_options, read_value, resolve, unknown_key,
};

/// The keys of the file.
const KEYS: [&str; 9] =
    ["type", "title", "goal", "steps", "verify", "limits", "policy", "tools", "driver"];
/// The one driver of a verification: another program does the work, and Surety observes it.
const OBSERVER: &str = "observer";
/// The title of checks that have none.
const TITLE: &str = "verification";

/// The checks of a verification, and what is allowed on its behalf.
#[derive(Debug, Clone)]
pub struct VerifyPlan {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The SHA-256 of its bytes.
    pub digest: String,
    /// The checks; the plan has no steps that are carried out.
    pub plan: Plan,
    /// What is allowed.
    pub policy: Policy,
    /// The limits; those of steps bound each check.
    pub limits: Limits,
    /// What the reader corrected.
    pub warnings: Vec<Warning>,
}

impl VerifyPlan {
    /// Reads the text of a file. `file` reads one that an overlay names, and `look` looks at a path of the
    /// workspace, as it was at the start, for a check that is such a path alone.
    ///
    /// # Errors
    /// It is neither YAML nor JSON, has an unknown key or an invalid value, or names no check.
    pub fn read(
        path: &Path,
        text: &str,
        file: ReadFile<'_>,
        look: Look<'_>,
    ) -> Result<Self, Failure> {
        let read = Self::read_members(path, text, file, look);
        read.map_err(|failure| failure.in_file(path))
    }

    fn read_members(
        path: &Path,
        text: &str,
        file: ReadFile<'_>,
        look: Look<'_>,
    ) -> Result<Self, Failure> {
        let Value::Object(mut members) = read_value(text)? else {
            return Err(Failure::new(
                Code::OrderUnreadable,
                "it holds no keys and values",
                EXAMPLE,
            ));
        };
        let options = options(&members)?;
        for (_, checks) in members.iter_mut().filter(|(key, _)| key == "verify") {
            know_checks(checks, "verify")?;
            resolve(checks, file)?;
            name_paths(checks, look);
        }
        let (plan, warnings) = plan(members)?;
        let policy = read_policy(options.policy.unwrap_or_default())?;
        let limits = read_own_limits(options.limits.unwrap_or_default())?;
        if plan.verify.is_empty() {
            let message = "it names no check under `verify`";
            return Err(Failure::new(Code::ChecksMissing, message, EXAMPLE).at("verify"));
        }
        if policy.verify_commands == VerifyCommands::ReceiptsOnly {
            let message =
                "`policy.verify_commands` is receipts_only, and a verification has no steps";
            let advice = "Leave it out: the runner runs the commands of checks itself.";
            return Err(
                Failure::new(Code::ValueInvalid, message, advice).at("policy.verify_commands")
            );
        }
        plan.check_globs()?;
        check_verifications(&plan, &policy)?;
        NamespacePolicy::default().admit_checks(&plan, &policy)?;
        let unknown = |check: &AcceptCheck| check.is_hidden() && check.overlay.files().is_none();
        if let Some(index) = plan.verify.iter().position(unknown) {
            let field = format!("verify[{index}].overlay_digest");
            let message = "a verification has the files of an overlay, and no digest of them";
            return Err(Problem::at(ProblemCode::OverlayUnknown, field, message).into());
        }
        // A line of text is the usual form of a check here.
        let warnings = warnings.into_iter();
        let warnings = warnings.filter(|it| it.code != WarningCode::LegacyCheckMigrated).collect();
        let digest = sha256_hex(text.as_bytes());
        Ok(Self { path: path.to_owned(), digest, plan, policy, limits, warnings })
    }
}

impl VerifyPlan {
    /// A verification without any check of a user.
    #[must_use]
    pub fn without_checks() -> Self {
        Self {
            path: PathBuf::new(),
            digest: sha256_hex(b""),
            plan: Plan { title: TITLE.to_owned(), ..Plan::default() },
            policy: Policy::default(),
            limits: Limits::default(),
            warnings: Vec::new(),
        }
    }

    /// The same checks, followed by those of a plan that another program proposes. Policy and limits stay.
    ///
    /// # Errors
    /// A proposed check has the name of one of the user, or cannot be decided.
    pub fn with_proposed(&self, proposed: &Plan) -> Result<Self, Failure> {
        let mut plan = self.plan.clone();
        for (index, check) in proposed.verify.iter().enumerate() {
            let field = format!("checks[{index}]");
            if !check.id.is_empty() && self.plan.verify.iter().any(|own| own.name() == check.id) {
                let message = format!("the check {:?} has the name of one of the user", check.id);
                let advice = "Give it another id; the user's check stays as it is.";
                return Err(Failure::new(Code::ValueInvalid, message, advice).at(field));
            }
            plan.verify.push(AcceptCheck { owner: Owner::Plan, ..check.clone() });
        }
        if self.plan.verify.is_empty() {
            plan.title.clone_from(&proposed.title);
        }
        plan.goal.clone_from(&proposed.goal);
        plan.check_globs()?;
        check_verifications(&plan, &self.policy)?;
        Ok(Self { plan, ..self.clone() })
    }
}

/// What to write.
const EXAMPLE: &str = "docs/verify.md has an example.";

fn options(members: &[(String, Value)]) -> Result<PlanFile, Failure> {
    for (key, value) in members {
        if !KEYS.contains(&key.as_str()) {
            return Err(unknown_key("", key, &KEYS));
        }
        if key == "driver" && !value.is_null() && value.as_str() != Some(OBSERVER) {
            let message = format!("`driver` is {}", value.to_compact());
            let advice = "Leave it out, or write observer: `surety verify` carries out no steps.";
            return Err(Failure::new(Code::ValueInvalid, message, advice).at("driver"));
        }
    }
    let options = members.iter().filter(|(key, _)| key != "driver");
    read_options(options.map(|(key, value)| (key.as_str(), value)))
}

/// The plan. Its title and its steps are optional; the checks of steps are refused, because no step is
/// carried out here.
fn plan(mut members: Vec<(String, Value)>) -> Result<(Plan, Vec<Warning>), Failure> {
    let find = |members: &[(String, Value)], wanted: &str| {
        members.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.clone())
    };
    let has = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    if !has(find(&members, "title").as_ref()) {
        members.retain(|(key, _)| key != "title");
        members.push(("title".to_owned(), Value::String(TITLE.to_owned())));
    }
    if !has(find(&members, "steps").as_ref()) {
        let checks = find(&members, "verify").unwrap_or(Value::Null);
        let (verify, warnings) = read_checks(&checks, "verify", Author::Submitter)?;
        let text = |key: &str| {
            let value = find(&members, key).filter(|value| !value.is_null());
            value.map_or(Ok(String::new()), |value| {
                value.as_str().map(str::to_owned).ok_or_else(|| not_a_text(key, &value))
            })
        };
        let (title, goal) = (text("title")?, text("goal")?);
        return Ok((Plan { title, goal, verify, ..Plan::default() }, warnings));
    }
    members.retain(|(key, _)| !matches!(key.as_str(), "limits" | "policy" | "driver"));
    let text = Value::Object(members).to_compact();
    let most = Limits::default().max_plan_steps;
    let (plan, warnings) = parse_plan(&text, Author::Submitter, most)?;
    if let Some(index) = plan.steps.iter().position(|step| !step.verify.is_empty()) {
        let field = format!("steps[{index}].verify");
        let message = format!("`{field}` has checks, and `surety verify` carries out no steps");
        let advice = "Move them to `verify`.";
        return Err(Failure::new(Code::ValueInvalid, message, advice).at(field));
    }
    Ok((plan, warnings))
}

fn not_a_text(key: &str, value: &Value) -> Failure {
    let message = format!("`{key}` is a {}", value.kind());
    Failure::new(Code::ValueInvalid, message, "Use a text.").at(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::check::{CheckKind, Standing};

    fn read(text: &str) -> Result<VerifyPlan, Failure> {
        let none =
            |path: &Path| Err(Failure::new(Code::FileUnusable, path.display().to_string(), ""));
        let look = |path: &str| (path == "scripts/test").then_some(Standing::Program);
        VerifyPlan::read(Path::new("checks.yaml"), text, &none, &look)
    }

    #[test]
    fn a_path_alone_of_a_program_is_a_command_and_of_another_file_is_refused() {
        let read_one = read("verify: [make test, scripts/test]").unwrap();
        let check = read_one.plan.verify.last().unwrap();
        assert_eq!(
            (&check.kind, check.target.as_str()),
            (&CheckKind::CommandSuccess, "scripts/test")
        );
        assert_eq!(read("verify: scripts/test").unwrap().plan.verify.len(), 1);
        assert!(read("verify: [scripts/other]").is_err());
    }

    #[test]
    fn checks_alone_are_enough_and_belong_to_the_user() {
        let read = read("verify: [\"make test\", README.md]").unwrap();
        assert_eq!(read.plan.verify.len(), 2);
        assert!(read.plan.verify.iter().all(|check| check.owner == Owner::User));
        assert_eq!(read.plan.title, TITLE);
    }

    #[test]
    fn what_cannot_be_meant_is_named_before_anything_runs() {
        for (text, code, place) in [
            ("verify: []", "checks_missing", "verify"),
            ("title: t", "checks_missing", "verify"),
            ("verify: [make]\npolicy: {netwrk: all}", "unknown_key", "policy.netwrk"),
            ("verify: [make]\npolicy: {network: hosts}", "type_mismatch", "policy.network"),
            ("verify: [make]\npolicy: {verify_commands: receipts_only}", "value_invalid", "policy"),
            ("verify: [make]\nlimits: {step_deadline: soon}", "value_invalid", "step_deadline"),
            ("verify: [make]\nworkspace: .", "unknown_key", "workspace"),
            (
                "verify: [{kind: command_success, target: make, params: {min_test: 3}}]",
                "unknown_key",
                "verify[0].params.min_test",
            ),
            ("verify: [{kind: expression, target: \"1 +\"}]", "value_invalid", "verify[0].target"),
            ("verify: [make]\ndriver: script", "value_invalid", "driver"),
            (
                "verify: [{kind: workspace_change, params: {paths: \"a[\"}}]",
                "type_mismatch",
                "paths",
            ),
            ("verify: [\"do something nice\"]", "check_unreadable", "verify"),
            (
                "verify: [{kind: command_success, target: make, overlays: {a: x}}]",
                "unknown_key",
                "verify[0].overlays",
            ),
            ("verify: [make, {kind: comand, target: make}]", "value_invalid", "verify[1].kind"),
            ("- make", "order_unreadable", "keys"),
            (
                "verify: [{kind: command_success, target: make, overlay: {../a: x}}]",
                "overlay_path_invalid",
                "verify[0].overlay",
            ),
            (
                "verify: [{kind: command_success, target: make, overlay: {a: {file: none}}}]",
                "file_unusable",
                "none",
            ),
            (
                "verify: [make]\nsteps: [{id: a, description: d, verify: [make]}]",
                "value_invalid",
                "steps[0].verify",
            ),
        ] {
            let failure = read(text).err().unwrap_or_else(|| panic!("accepted: {text}")).to_text();
            assert!(failure.contains(&format!("[{code}]")), "{text}: {failure}");
            assert!(failure.contains(place), "{text}: {failure}");
        }
    }

    #[test]
    fn the_plan_file_of_a_run_may_be_reused_for_its_checks() {
        let text = "title: T\ngoal: G\nsteps: [{id: a, description: d}]\nverify: [make]";
        let read = read(text).unwrap();
        assert_eq!((read.plan.title.as_str(), read.plan.steps.len()), ("T", 1));
    }
}
