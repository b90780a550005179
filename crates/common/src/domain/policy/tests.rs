//! Rows for the policy of a namespace.

use super::*;
use crate::domain::check::{Author, read_checks};
use crate::domain::json::parse;
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::run::{NetworkPolicy, SandboxPolicy, VerifyCommands};

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
    let policy = |in_doubt| Policy { in_doubt, refuse_on: names(&["flaky"]), ..Policy::default() };
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
    let unknown = NamespacePolicy { refuse_on: names(&["flaki"]), ..NamespacePolicy::default() };
    let refused = unknown.validated().expect_err("a refusal");
    assert_eq!(refused.field.as_deref(), Some("refuse_on[0]"));
}

#[test]
fn lines_that_prepare_a_view_are_of_both_policies_and_a_blank_one_is_named() {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let namespace = NamespacePolicy { prepare: lines(&[" npm ci "]), ..NamespacePolicy::default() };
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
fn a_check_without_a_sandbox_is_refused_by_the_rules_of_a_run_and_of_its_namespace() {
    let check = |owner: &str| {
        format!(
            r#"{{"kind":"command_success","target":"make","owner":"{owner}","params":{{"sandbox":"none"}}}}"#
        )
    };
    let plan = |owner: &str, in_step: bool| {
        let read = |text: &str| {
            let value = parse(text).expect("JSON").value;
            read_checks(&value, "verify", Author::Service).expect("checks").0
        };
        let (own, of_step) =
            if in_step { ("[]".into(), check(owner)) } else { (check(owner), "[]".into()) };
        let step = PlanStep { verify: read(&of_step), ..PlanStep::default() };
        Plan { verify: read(&own), steps: vec![step], ..Plan::default() }
    };
    let strict = NamespacePolicy { refuse_unsandboxed: true, ..NamespacePolicy::default() };
    let full = Policy { sandbox: SandboxPolicy::RequireFull, ..Policy::default() };
    let (open, usual) = (NamespacePolicy::default(), Policy::default());
    for (namespace, policy, owner, refused) in [
        (&open, &usual, "user", None),
        (&open, &full, "user", Some(Code::SandboxNotAllowed)),
        (&open, &full, "operator", Some(Code::SandboxNotAllowed)),
        (&strict, &usual, "user", Some(Code::PolicyExceeded)),
        (&strict, &usual, "operator", None),
    ] {
        for (in_step, field) in
            [(false, "verify[0].params.sandbox"), (true, "steps[0].verify[0].params.sandbox")]
        {
            let problem = namespace.admit_checks(&plan(owner, in_step), policy).err();
            assert_eq!(problem.as_ref().map(|problem| problem.code), refused, "{owner}");
            let found = problem.as_ref().and_then(|problem| problem.field.as_deref());
            assert_eq!(found, refused.map(|_| field), "{owner}");
        }
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
