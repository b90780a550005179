//! What operators ask of every run of a namespace. A request can only tighten it.

use crate::domain::caution::check_codes;
use crate::domain::check::{
    AcceptCheck, Author, Overlay, OverlayFiles, Owner, normalise_checks, read_checks,
    validate_check,
};
use crate::domain::check_inputs::read_globs;
use crate::domain::confirmation::{ConfirmPolicy, read_tools};
use crate::domain::json::Value;
use crate::domain::limits::Limits;
use crate::domain::problem::{Code, Problem};
use crate::domain::run::{InDoubt, NetworkPolicy, Policy, SandboxPolicy, VerifyCommands};
use crate::domain::tool_workers::{ToolWorkerPolicy, check_entries, read_entries};
use crate::domain::verification::Verification;
use crate::domain::verify_tool::{VerifyTool, read_verify_tools};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The most checks that a namespace may ask of a run.
const MAX_CHECKS: usize = 100;
/// All files of the hidden checks of a namespace, in bytes.
const MAX_OVERLAYS: usize = 4 << 20;
/// The most lines that prepare a view, and the most bytes of one.
const MAX_PREPARE: usize = 20;
const MAX_PREPARE_LINE: usize = 4096;
/// The most folders in which a namespace's workspaces lie.
const MAX_ROOTS: usize = 100;

/// The policy of a namespace. The default asks nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespacePolicy {
    /// The highest value of a limit, by the limit's name.
    pub ceilings: BTreeMap<String, u64>,
    /// Whether a second person has to approve what the first one requested.
    pub four_eyes: bool,
    /// Whether every check's command is run by the runner itself: `receipts_only` is refused.
    pub refuse_receipts_only: bool,
    /// Whether no run may declare commands that are safe to run again.
    pub refuse_repeatable_commands: bool,
    /// Checks of every run, in front of its plan's, with the owner `operator`.
    pub checks: Vec<AcceptCheck>,
    /// Whether commands reach no network.
    pub refuse_network: bool,
    /// Whether no run may have commands without a sandbox.
    pub refuse_unsandboxed: bool,
    /// Whether commands of every run need the sandbox's level full.
    pub require_full_sandbox: bool,
    /// Whether a verdict that rests on checks of the plan alone is refused for every run.
    pub require_independent: bool,
    /// The folders in which workspaces lie; empty allows every folder.
    pub workspace_roots: Vec<String>,
    /// The most lenient value of a run's `in_doubt`; none allows every one.
    pub in_doubt: Option<InDoubt>,
    /// Cautions that refuse in every run.
    pub refuse_on: Vec<String>,
    /// Globs of check inputs of every run.
    pub protect: Vec<String>,
    /// Whether no run may name check inputs that it changes.
    pub refuse_may_change: bool,
    /// Globs that bound what runs may change; empty bounds nothing.
    pub may_change_within: Vec<String>,
    /// Lines that prepare the view of every run's checks, before those of the run.
    pub prepare: Vec<String>,
    /// Names and patterns of tools of which each call needs a confirmation in every run.
    pub confirm_tools: Vec<String>,
    /// Whether calls of every tool that may destroy data need one.
    pub confirm_destructive: bool,
    /// Whether calls of every tool with effects outside the workspace need one.
    pub confirm_open_world: bool,
    /// Which identities may serve which tools as workers.
    pub tool_workers: Vec<ToolWorkerPolicy>,
    /// Verification commands of every run.
    pub verify_tools: Vec<VerifyTool>,
}

impl NamespacePolicy {
    /// The keys that have an effect; any other is refused when the policy is set.
    pub const KEYS: [&str; 21] = [
        "ceilings",
        "checks",
        "confirm_destructive",
        "confirm_open_world",
        "confirm_tools",
        "four_eyes",
        "in_doubt",
        "may_change_within",
        "prepare",
        "protect",
        "refuse_may_change",
        "refuse_network",
        "refuse_on",
        "refuse_receipts_only",
        "refuse_repeatable_commands",
        "refuse_unsandboxed",
        "require_full_sandbox",
        "require_independent",
        "tool_workers",
        "verify_tools",
        "workspace_roots",
    ];

    /// Looks at the whole policy, and brings its checks into their one form.
    ///
    /// # Errors
    /// `limit_out_of_range` for a ceiling of no limit
    /// or outside the limit's range; `too_large` for too many checks, folders or bytes of overlays;
    /// `overlay_unknown` for an overlay without its files ([`Self::with_known_overlays`]);
    /// `type_mismatch` for a folder that is no absolute path and for a name that is no caution; the codes of
    /// checks.
    pub fn validated(mut self) -> Result<Self, Problem> {
        for (name, ceiling) in &self.ceilings {
            let at = |message: String| {
                Problem::at(Code::LimitOutOfRange, format!("ceilings.{name}"), message)
            };
            let (low, high) = Limits::range_of(name)
                .ok_or_else(|| at(format!("{name:?} is no limit of a run")))?;
            if !(low..=high).contains(ceiling) {
                return Err(at(format!(
                    "{ceiling} is outside {low}..{high}; choose a value inside"
                )));
            }
        }
        if self.checks.len() > MAX_CHECKS {
            let message = format!("has more than {MAX_CHECKS} checks; leave some out");
            return Err(Problem::at(Code::TooLarge, "checks", message));
        }
        check_roots(&self.workspace_roots)?;
        self.refuse_on = check_codes("refuse_on", self.refuse_on)?;
        read_globs("protect", &self.protect)?;
        read_globs("may_change_within", &self.may_change_within)?;
        self.prepare = read_prepare("prepare", self.prepare)?;
        self.confirm_tools = read_tools("confirm_tools", self.confirm_tools)?;
        check_entries("tool_workers", &self.tool_workers)?;
        self.verify_tools = read_verify_tools("verify_tools", self.verify_tools)?;
        let stored = Value::Array(self.checks.iter().map(AcceptCheck::to_json).collect());
        let (checks, _) = read_checks(&stored, "checks", Author::Operator)?;
        let checks: Vec<_> = checks.into_iter().map(of_operator).collect();
        let known: Vec<_> = self.checks.iter().map(|check| check.overlay.clone()).collect();
        self.checks = with_overlays(checks, &known);
        self.check_overlays()?;
        self.check_verifications()?;
        Ok(self)
    }

    /// With the files of overlays that the stored policy has under the same digests: answers and requests to
    /// change another key name them by their digests alone.
    #[must_use]
    pub fn with_known_overlays(self, stored: &Self) -> Self {
        let known: Vec<_> = stored.checks.iter().map(|check| check.overlay.clone()).collect();
        self.with_overlays(&known)
    }

    /// With the files of these overlays, where a check names their digests.
    #[must_use]
    pub fn with_overlays(mut self, overlays: &[Overlay]) -> Self {
        self.checks = with_overlays(self.checks, overlays);
        self
    }

    /// The files of every hidden check, by their digests.
    pub fn overlays(&self) -> BTreeMap<&str, &OverlayFiles> {
        let files = self
            .checks
            .iter()
            .filter_map(|check| Some((check.overlay.digest(), check.overlay.files()?.as_ref())));
        files.collect()
    }

    /// A check of every run can only name commands that every run has.
    fn check_verifications(&self) -> Result<(), Problem> {
        let always_verify_tools = self.verify_tools.clone();
        let policy = Policy { always_verify_tools, ..Policy::default() };
        for (index, check) in self.checks.iter().enumerate() {
            Verification::of_check(check, &policy)
                .map_err(|problem| problem.under(&format!("checks[{index}].params")))?;
        }
        Ok(())
    }

    fn check_overlays(&self) -> Result<(), Problem> {
        for (index, check) in self.checks.iter().enumerate() {
            let path = format!("checks[{index}]");
            validate_check(check, &path)?;
            if check.is_hidden() && check.overlay.files().is_none() {
                let message = "the policy has no overlay with this digest; send the files";
                return Err(Problem::at(Code::OverlayUnknown, format!("{path}.overlay"), message));
            }
        }
        let sizes = self.overlays().into_values().flat_map(BTreeMap::values).map(Vec::len);
        let bytes: usize = sizes.sum();
        if bytes > MAX_OVERLAYS {
            let message = format!(
                "its hidden checks have {bytes} bytes of files; at most {MAX_OVERLAYS} are kept"
            );
            return Err(Problem::at(Code::TooLarge, "checks", message));
        }
        Ok(())
    }

    /// The limits of a run: what it asks for, and the ceilings where it asks for nothing. `asked` says
    /// whether the request sets a limit itself.
    ///
    /// # Errors
    /// `policy_exceeded`, naming the limit and the policy key, when it asks for more than a ceiling.
    pub fn bound(
        &self,
        mut limits: Limits,
        asked: impl Fn(&str) -> bool,
    ) -> Result<Limits, Problem> {
        for (name, ceiling) in &self.ceilings {
            let Some(mut value) = limits.value_mut(name) else { continue };
            let exceeds = value.get().is_none_or(|value| value > *ceiling);
            if exceeds && asked(name) {
                let asked = value.get().unwrap_or(u64::MAX);
                let message = format!(
                    "{asked} is above the ceiling {ceiling} of the namespace's policy key \
                     ceilings.{name}; ask for less"
                );
                return Err(Problem::at(Code::PolicyExceeded, format!("limits.{name}"), message));
            }
            if exceeds {
                value.set(*ceiling);
            }
        }
        Ok(limits)
    }

    /// The rules of a run: what it asks for, tightened to the floors. `asked` says what the request sets
    /// `in_doubt` to itself; none leaves it to the policies.
    ///
    /// # Errors
    /// `policy_exceeded`, naming the rule and the policy key, when it asks for what is refused.
    pub fn admit(&self, policy: Policy, asked: Option<InDoubt>) -> Result<Policy, Problem> {
        let most = self.in_doubt.unwrap_or(InDoubt::Allow);
        if let Some(asked) = asked.filter(|asked| *asked > most) {
            let message = format!(
                "{} is more lenient than {}, the namespace's policy key in_doubt; ask for less",
                asked.as_str(),
                most.as_str()
            );
            return Err(Problem::at(Code::PolicyExceeded, "policy.in_doubt", message));
        }
        let is_taken = |tool: &VerifyTool| self.verify_tools.iter().any(|it| it.name == tool.name);
        if let Some(place) = policy.verify_tools.iter().position(is_taken) {
            let message = "the namespace's policy key verify_tools has this name; use another one";
            let field = format!("policy.verify_tools[{place}].name");
            return Err(Problem::at(Code::PolicyExceeded, field, message));
        }
        let receipts_only = policy.verify_commands == VerifyCommands::ReceiptsOnly;
        let unsandboxed = policy.sandbox == SandboxPolicy::None;
        for (refuses, asks, field, key) in [
            (self.refuse_receipts_only, receipts_only, "verify_commands", "refuse_receipts_only"),
            (
                self.refuse_repeatable_commands,
                !policy.repeatable_commands.is_empty(),
                "repeatable_commands",
                "refuse_repeatable_commands",
            ),
            (
                self.refuse_network,
                policy.network != NetworkPolicy::None,
                "network",
                "refuse_network",
            ),
            (
                self.refuse_may_change,
                !policy.may_change.is_empty(),
                "may_change",
                "refuse_may_change",
            ),
            (self.refuse_unsandboxed, unsandboxed, "sandbox", "refuse_unsandboxed"),
            (self.require_full_sandbox, unsandboxed, "sandbox", "require_full_sandbox"),
        ] {
            if refuses && asks {
                let message =
                    format!("the namespace's policy key {key} refuses this; leave it out");
                return Err(Problem::at(Code::PolicyExceeded, format!("policy.{field}"), message));
            }
        }
        let sandbox =
            if self.require_full_sandbox { SandboxPolicy::RequireFull } else { policy.sandbox };
        Ok(Policy {
            sandbox,
            require_independent: self.require_independent || policy.require_independent,
            workspace_roots: self.workspace_roots.clone(),
            in_doubt: policy.in_doubt.min(most),
            refuse_on: check_codes(
                "refuse_on",
                [self.refuse_on.clone(), policy.refuse_on].concat(),
            )?,
            always_protect: self.protect.clone(),
            may_change_within: self.may_change_within.clone(),
            always_prepare: self.prepare.clone(),
            confirm: self.confirmed(policy.confirm),
            always_verify_tools: self.verify_tools.clone(),
            ..policy
        })
    }

    /// What needs a confirmation in a run: what it asks for, and what the namespace does.
    #[must_use]
    pub fn confirmed(&self, asked: ConfirmPolicy) -> ConfirmPolicy {
        let mut tools = self.confirm_tools.clone();
        let more: Vec<_> = asked.tools.into_iter().filter(|tool| !tools.contains(tool)).collect();
        tools.extend(more);
        ConfirmPolicy {
            tools,
            destructive: self.confirm_destructive || asked.destructive,
            open_world: self.confirm_open_world || asked.open_world,
            ..asked
        }
    }

    /// The checks of a run's plan with the policy's in front.
    #[must_use]
    pub fn with_checks(&self, own: Vec<AcceptCheck>) -> Vec<AcceptCheck> {
        if self.checks.is_empty() {
            return own;
        }
        let all = self.checks.iter().cloned().chain(own).collect();
        normalise_checks(all, "verify").0
    }

    /// The form it is stored in.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self {
            ceilings,
            four_eyes,
            refuse_receipts_only,
            refuse_repeatable_commands,
            checks,
            refuse_network,
            refuse_unsandboxed,
            require_full_sandbox,
            require_independent,
            workspace_roots,
            in_doubt,
            refuse_on,
            protect,
            refuse_may_change,
            may_change_within,
            prepare,
            confirm_tools,
            confirm_destructive,
            confirm_open_world,
            tool_workers,
            verify_tools,
        } = self;
        let ceilings =
            ceilings.iter().map(|(name, value)| (name.clone(), Value::Number(value.to_string())));
        let texts =
            |texts: &[String]| Value::Array(texts.iter().cloned().map(Value::String).collect());
        let member = |key: &str, value| (key.to_owned(), value);
        let text = |text: &str| Value::String(text.to_owned());
        Value::Object(vec![
            member("ceilings", Value::Object(ceilings.collect())),
            member("four_eyes", Value::Bool(*four_eyes)),
            member("refuse_receipts_only", Value::Bool(*refuse_receipts_only)),
            member("refuse_repeatable_commands", Value::Bool(*refuse_repeatable_commands)),
            member("checks", Value::Array(checks.iter().map(AcceptCheck::to_json).collect())),
            member("refuse_network", Value::Bool(*refuse_network)),
            member("refuse_unsandboxed", Value::Bool(*refuse_unsandboxed)),
            member("require_full_sandbox", Value::Bool(*require_full_sandbox)),
            member("require_independent", Value::Bool(*require_independent)),
            member("workspace_roots", texts(workspace_roots)),
            member("in_doubt", in_doubt.map_or(Value::Null, |most| text(most.as_str()))),
            member("refuse_on", Value::Array(refuse_on.iter().map(|code| text(code)).collect())),
            member("protect", texts(protect)),
            member("refuse_may_change", Value::Bool(*refuse_may_change)),
            member("may_change_within", texts(may_change_within)),
            member("prepare", texts(prepare)),
            member("confirm_tools", texts(confirm_tools)),
            member("confirm_destructive", Value::Bool(*confirm_destructive)),
            member("confirm_open_world", Value::Bool(*confirm_open_world)),
            member(
                "tool_workers",
                Value::Array(tool_workers.iter().map(ToolWorkerPolicy::to_json).collect()),
            ),
            member(
                "verify_tools",
                Value::Array(verify_tools.iter().map(VerifyTool::to_json).collect()),
            ),
        ])
    }

    /// Reads the stored form, which has the digests of overlays alone.
    ///
    /// # Errors
    /// `type_mismatch`, or what is wrong with a check.
    pub fn from_json(value: &Value) -> Result<Self, Problem> {
        let truth = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or_default();
        let mut ceilings = BTreeMap::new();
        for (name, value) in value.get("ceilings").and_then(Value::as_object).unwrap_or_default() {
            let number = value.as_number().and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| {
                Problem::at(Code::TypeMismatch, format!("ceilings.{name}"), "is no whole number")
            })?;
            ceilings.insert(name.clone(), number);
        }
        let none = Value::Null;
        let stored = value.get("checks").unwrap_or(&none);
        let (checks, _) = read_checks(stored, "checks", Author::Operator)?;
        let texts = |key: &str| -> Vec<String> {
            let list = value.get(key).and_then(Value::as_array).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let tools = value.get("verify_tools").and_then(Value::as_array).unwrap_or_default();
        let in_doubt = value.get("in_doubt").and_then(Value::as_str);
        let in_doubt = in_doubt.map(|word| {
            let message = format!("{word:?} is none of refuse, ask, allow");
            let unknown = || Problem::at(Code::TypeMismatch, "in_doubt", message);
            InDoubt::from_text(word).ok_or_else(unknown)
        });
        Ok(Self {
            ceilings,
            four_eyes: truth("four_eyes"),
            refuse_receipts_only: truth("refuse_receipts_only"),
            refuse_repeatable_commands: truth("refuse_repeatable_commands"),
            checks: checks.into_iter().map(of_operator).collect(),
            refuse_network: truth("refuse_network"),
            refuse_unsandboxed: truth("refuse_unsandboxed"),
            require_full_sandbox: truth("require_full_sandbox"),
            require_independent: truth("require_independent"),
            workspace_roots: texts("workspace_roots"),
            in_doubt: in_doubt.transpose()?,
            refuse_on: texts("refuse_on"),
            protect: texts("protect"),
            refuse_may_change: truth("refuse_may_change"),
            may_change_within: texts("may_change_within"),
            prepare: texts("prepare"),
            confirm_tools: texts("confirm_tools"),
            confirm_destructive: truth("confirm_destructive"),
            confirm_open_world: truth("confirm_open_world"),
            tool_workers: read_entries(value),
            verify_tools: tools.iter().map(VerifyTool::from_json).collect::<Result<_, _>>()?,
        })
    }
}

/// Looks at lines that prepare a view, and takes the blanks around them away.
///
/// # Errors
/// `too_large` for too many lines and for a long one; `type_mismatch` for a blank one and for one that cannot
/// be stored.
pub fn read_prepare(field: &str, lines: Vec<String>) -> Result<Vec<String>, Problem> {
    if lines.len() > MAX_PREPARE {
        let message = format!("has more than {MAX_PREPARE} lines; join some, or name a script");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    let read = |(place, line): (usize, String)| {
        let at =
            |code, message: String| Err(Problem::at(code, format!("{field}[{place}]"), message));
        let line = line.trim();
        if line.is_empty() {
            return at(Code::TypeMismatch, "is blank; write a command, such as npm ci".to_owned());
        }
        if line.contains('\0') {
            return at(Code::TypeMismatch, "contains the character U+0000; remove it".to_owned());
        }
        if line.len() > MAX_PREPARE_LINE {
            let message = format!("is longer than {MAX_PREPARE_LINE} bytes; name a script");
            return at(Code::TooLarge, message);
        }
        Ok(line.to_owned())
    };
    lines.into_iter().enumerate().map(read).collect()
}

fn check_roots(roots: &[String]) -> Result<(), Problem> {
    if roots.len() > MAX_ROOTS {
        let message = format!("has more than {MAX_ROOTS} folders; leave some out");
        return Err(Problem::at(Code::TooLarge, "workspace_roots", message));
    }
    for (index, root) in roots.iter().enumerate() {
        let path = Path::new(root);
        let climbs = path.components().any(|part| part == Component::ParentDir);
        if !path.is_absolute() || climbs {
            let message = format!("{root:?} is not an absolute path without `..`; write it so");
            let field = format!("workspace_roots[{index}]");
            return Err(Problem::at(Code::TypeMismatch, field, message));
        }
    }
    Ok(())
}

/// Gives checks the files of their overlays, where these are known.
fn with_overlays(mut checks: Vec<AcceptCheck>, known: &[Overlay]) -> Vec<AcceptCheck> {
    for check in checks.iter_mut().filter(|check| check.is_hidden()) {
        let same = known.iter().find(|it| it.files().is_some() && **it == check.overlay);
        if let Some(same) = same.filter(|_| check.overlay.files().is_none()) {
            check.overlay = same.clone();
        }
    }
    checks
}

fn of_operator(check: AcceptCheck) -> AcceptCheck {
    AcceptCheck { owner: Owner::Operator, ..check }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, ceiling: u64) -> NamespacePolicy {
        let ceilings = BTreeMap::from([(name.to_owned(), ceiling)]);
        NamespacePolicy { ceilings, ..NamespacePolicy::default() }
    }

    #[test]
    fn a_request_tightens_a_ceiling_and_one_above_is_refused_by_its_key() {
        let strict = policy("max_run_rounds", 10);
        let asks = |rounds| Limits { max_run_rounds: rounds, ..Limits::default() };
        let bound = |limits, asked: bool| strict.bound(limits, |_| asked);
        assert_eq!(bound(asks(5), true).map(|limits| limits.max_run_rounds), Ok(5));
        assert_eq!(bound(Limits::default(), false).map(|limits| limits.max_run_rounds), Ok(10));
        let refused = bound(asks(11), true).expect_err("a refusal");
        assert_eq!(refused.code, Code::PolicyExceeded);
        assert_eq!(refused.field.as_deref(), Some("limits.max_run_rounds"));
        assert!(refused.message.contains("ceilings.max_run_rounds"), "{refused:?}");
    }

    #[test]
    fn a_budget_that_is_not_asked_for_is_the_ceiling() {
        let bound = policy("token_budget", 7).bound(Limits::default(), |_| false);
        assert_eq!(bound.map(|limits| limits.token_budget), Ok(Some(7)));
    }

    #[test]
    fn a_ceiling_of_no_limit_or_outside_its_range_is_refused() {
        for (name, ceiling) in [("max_fun", 1), ("max_replans", 11)] {
            let refused = policy(name, ceiling).validated().expect_err(name);
            assert_eq!(refused.field, Some(format!("ceilings.{name}")));
        }
        assert!(policy("max_replans", 0).validated().is_ok());
    }

    #[test]
    fn four_eyes_needs_nothing_else() {
        let four_eyes = NamespacePolicy { four_eyes: true, ..NamespacePolicy::default() };
        assert!(four_eyes.validated().is_ok());
    }

    #[test]
    fn a_request_is_in_doubt_as_the_namespace_allows_and_refuses_on_what_both_name() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let strict = NamespacePolicy {
            in_doubt: Some(InDoubt::Ask),
            refuse_on: names(&["thin_check"]),
            ..NamespacePolicy::default()
        };
        let strict = strict.validated().expect("a policy");
        assert_eq!(NamespacePolicy::from_json(&strict.to_json()), Ok(strict.clone()));
        let policy =
            |in_doubt| Policy { in_doubt, refuse_on: names(&["flaky"]), ..Policy::default() };
        let admit = |in_doubt, asked| strict.admit(policy(in_doubt), asked);
        let refused = admit(InDoubt::Allow, Some(InDoubt::Allow)).expect_err("a refusal");
        assert_eq!(refused.code, Code::PolicyExceeded);
        assert_eq!(refused.field.as_deref(), Some("policy.in_doubt"));
        for (in_doubt, asked, expected) in [
            (InDoubt::Refuse, Some(InDoubt::Refuse), InDoubt::Refuse),
            (InDoubt::Ask, Some(InDoubt::Ask), InDoubt::Ask),
            // What the request does not say is tightened.
            (InDoubt::Allow, None, InDoubt::Ask),
        ] {
            let admitted = admit(in_doubt, asked).expect("a policy");
            assert_eq!(admitted.in_doubt, expected);
            assert_eq!(admitted.refuse_on, ["flaky", "thin_check"]);
        }
        let unknown =
            NamespacePolicy { refuse_on: names(&["flaki"]), ..NamespacePolicy::default() };
        let refused = unknown.validated().expect_err("a refusal");
        assert_eq!(refused.field.as_deref(), Some("refuse_on[0]"));
    }

    #[test]
    fn lines_that_prepare_a_view_are_of_both_policies_and_a_blank_one_is_named() {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let namespace =
            NamespacePolicy { prepare: lines(&[" npm ci "]), ..NamespacePolicy::default() };
        let namespace = namespace.validated().expect("a policy");
        assert_eq!(NamespacePolicy::from_json(&namespace.to_json()), Ok(namespace.clone()));
        let asked = Policy { prepare: lines(&["make deps"]), ..Policy::default() };
        let admitted = namespace.admit(asked, None).expect("a policy");
        let found: Vec<_> = admitted.prepare_lines().collect();
        assert_eq!(found, [(Owner::Operator, "npm ci"), (Owner::User, "make deps")]);
        for (bad, code) in [
            (lines(&["a", " "]), Code::TypeMismatch),
            (lines(&["a", "b\0"]), Code::TypeMismatch),
            (vec!["a".to_owned(), "x".repeat(5000)], Code::TooLarge),
        ] {
            let refused = read_prepare("policy.prepare", bad).expect_err("a refusal");
            assert_eq!((refused.code, refused.field.as_deref()), (code, Some("policy.prepare[1]")));
        }
        assert!(read_prepare("prepare", vec!["a".to_owned(); 21]).is_err());
    }

    #[test]
    fn a_floor_refuses_what_is_below_it() {
        let strict = NamespacePolicy {
            refuse_receipts_only: true,
            refuse_repeatable_commands: true,
            ..NamespacePolicy::default()
        };
        assert_eq!(strict.admit(Policy::default(), None), Ok(Policy::default()));
        let loose = Policy { verify_commands: VerifyCommands::ReceiptsOnly, ..Policy::default() };
        let refused = strict.admit(loose, None).expect_err("a refusal");
        assert!(refused.message.contains("refuse_receipts_only"), "{refused:?}");
        let loose = Policy { repeatable_commands: vec!["make".into()], ..Policy::default() };
        assert!(strict.admit(loose.clone(), None).is_err());
        assert_eq!(NamespacePolicy::default().admit(loose.clone(), None), Ok(loose));
    }

    #[test]
    fn the_sandbox_and_the_network_of_a_run_are_tightened_or_refused() {
        let full = NamespacePolicy {
            require_full_sandbox: true,
            require_independent: true,
            workspace_roots: vec!["/srv/work".to_owned()],
            ..NamespacePolicy::default()
        };
        let admitted = full.admit(Policy::default(), None).expect("a policy");
        assert_eq!(admitted.sandbox, SandboxPolicy::RequireFull);
        assert!(admitted.require_independent);
        assert_eq!(admitted.workspace_roots, ["/srv/work"]);
        let none = Policy { sandbox: SandboxPolicy::None, ..Policy::default() };
        let open = Policy { network: NetworkPolicy::All, ..Policy::default() };
        let some = NamespacePolicy::default;
        for (namespace, policy, key) in [
            (full, none.clone(), "require_full_sandbox"),
            (NamespacePolicy { refuse_unsandboxed: true, ..some() }, none, "refuse_unsandboxed"),
            (NamespacePolicy { refuse_network: true, ..some() }, open, "refuse_network"),
        ] {
            let refused = namespace.admit(policy, None).expect_err(key);
            assert!(refused.message.contains(key), "{refused:?}");
        }
    }

    #[test]
    fn a_root_of_workspaces_is_an_absolute_path() {
        for (root, valid) in [("/srv", true), ("srv", false), ("/srv/../etc", false), ("", false)] {
            let policy = NamespacePolicy {
                workspace_roots: vec![root.to_owned()],
                ..NamespacePolicy::default()
            };
            let stored = policy.validated();
            assert_eq!(stored.is_ok(), valid, "{root}");
            if let Ok(policy) = stored {
                assert_eq!(NamespacePolicy::from_json(&policy.to_json()), Ok(policy));
            }
        }
    }

    #[test]
    fn a_hidden_check_keeps_its_files_beside_the_stored_form() {
        let check = |path: &str, content: &str| {
            let text = format!(
                r#"[{{"kind": "command_success", "target": "sh a.sh", "overlay": {{"{path}": "{content}"}}}}]"#
            );
            let value = crate::domain::json::parse(&text).expect("checks").value;
            read_checks(&value, "checks", Author::Operator).expect("checks").0
        };
        let of = |checks| NamespacePolicy { checks, ..NamespacePolicy::default() };
        let stored = of(check("a.sh", "exit 1")).validated().expect("a policy");
        assert_eq!(stored.overlays().len(), 1);
        let text = stored.to_json().to_compact();
        assert!(!text.contains("exit 1") && !text.contains("\"a.sh\""), "{text}");
        let read = NamespacePolicy::from_json(&stored.to_json()).expect("a policy");
        let refused = read.clone().validated().expect_err("no files");
        assert_eq!(refused.code, Code::OverlayUnknown);
        let known = read.with_known_overlays(&stored).validated().expect("a policy");
        assert_eq!(known.overlays(), stored.overlays());
        assert!(known.with_checks(Vec::new()).iter().all(|check| check.overlay.files().is_some()));
        let one = |at: usize| check(&format!("{at}.sh"), &"x".repeat(1 << 20)).remove(0);
        let large = of((0..5).map(|at| AcceptCheck { id: at.to_string(), ..one(at) }).collect());
        assert_eq!(large.validated().expect_err("too large").code, Code::TooLarge);
    }

    #[test]
    fn a_stored_policy_reads_back_and_its_checks_are_the_operators() {
        let check = Value::Object(vec![
            ("kind".to_owned(), Value::String("command_success".to_owned())),
            ("target".to_owned(), Value::String("make test".to_owned())),
            ("owner".to_owned(), Value::String("plan".to_owned())),
        ]);
        let (checks, _) =
            read_checks(&Value::Array(vec![check]), "checks", Author::Operator).expect("checks");
        let policy = NamespacePolicy { checks, ..policy("max_replans", 3) };
        let policy = policy.validated().expect("a policy");
        assert_eq!(policy.checks.first().map(|check| check.owner), Some(Owner::Operator));
        assert_eq!(NamespacePolicy::from_json(&policy.to_json()), Ok(policy.clone()));
        assert_eq!(policy.with_checks(Vec::new()).len(), 1);
    }
}
