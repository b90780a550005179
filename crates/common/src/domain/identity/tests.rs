//! The decision over calls, row by row.

use super::*;

fn identity(name: &str, roles: &[Role], namespaces: &[&str]) -> Identity {
    let names = namespaces.iter().map(|name| (*name).to_owned());
    Identity::new(name, roles.iter().copied(), Namespaces::from_names(names).unwrap()).unwrap()
}

fn decide(identity: &Identity, call: &str, object: &Object<'_>) -> Decision {
    allow(identity, rule_of(&format!("/surety.v1.{call}")).unwrap(), object)
}

#[test]
fn a_submitter_changes_its_own_runs_only_and_an_operator_all_of_its_namespaces() {
    use Decision::{Allowed, Denied, NotFound};
    let (alice, bob) = (Object::run("a", "alice"), Object::run("a", "bob"));
    let elsewhere = Object::run("b", "alice");
    let submitter = identity("alice", &[Role::Submitter], &["a"]);
    let operator = identity("olga", &[Role::Operator], &["a"]);
    let both = identity("alice", &[Role::Submitter, Role::Operator], &["a"]);
    let viewer = identity("vera", &[Role::Viewer], &["a"]);
    let cases = [
        (&submitter, "RunService/CancelRun", alice, Allowed(Role::Submitter)),
        (&submitter, "RunService/CancelRun", bob, Denied(Denial::NotOwn)),
        (&submitter, "RunService/CancelRun", elsewhere, NotFound),
        (&submitter, "RunService/GetRun", bob, Allowed(Role::Submitter)),
        (&operator, "RunService/CancelRun", bob, Allowed(Role::Operator)),
        (&operator, "RunService/CancelRun", elsewhere, NotFound),
        (&both, "RunService/CancelRun", alice, Allowed(Role::Submitter)),
        (&both, "RunService/CancelRun", bob, Allowed(Role::Operator)),
        (&viewer, "RunService/CancelRun", elsewhere, Denied(Denial::Role)),
        (&viewer, "RunService/GetRun", elsewhere, NotFound),
        (&viewer, "RunService/GetRun", bob, Allowed(Role::Viewer)),
    ];
    for (who, call, object, expected) in cases {
        assert_eq!(decide(who, call, &object), expected, "{} {call} {object:?}", who.name);
    }
}

#[test]
fn who_requested_does_not_approve_under_four_eyes_and_machines_never_do() {
    let call = "RunService/ResolveConfirmation";
    let mut alice = identity("alice", &[Role::Approver], &["*"]);
    let run = Object::run("a", "alice");
    let strict = Object { four_eyes: true, ..run };
    assert_eq!(decide(&alice, call, &run), Decision::Allowed(Role::Approver));
    assert_eq!(decide(&alice, call, &strict), Decision::Denied(Denial::FourEyes));
    let other = identity("bob", &[Role::Approver], &["a"]);
    assert_eq!(decide(&other, call, &strict), Decision::Allowed(Role::Approver));
    // No token can be made so; should a row say so all the same, it does not count.
    alice.roles.insert(Role::Driver);
    assert_eq!(decide(&alice, call, &run), Decision::Denied(Denial::Machine));
    let refused = Identity::new("x", [Role::Driver, Role::Approver], Namespaces::Every);
    assert_eq!(refused, Err(IdentityError::MachineApproves));
}

#[test]
fn a_driver_answers_no_question_whatever_else_it_may() {
    let call = "RunService/AnswerQuestion";
    let run = Object::run("a", "alice");
    let person = identity("alice", &[Role::Submitter], &["a"]);
    assert_eq!(decide(&person, call, &run), Decision::Allowed(Role::Submitter));
    for machine in [Role::Driver, Role::Worker] {
        let bot = identity("alice", &[Role::Submitter, machine], &["a"]);
        assert_eq!(decide(&bot, call, &run), Decision::Denied(Denial::Machine));
        assert_eq!(decide(&bot, "RunService/CancelRun", &run), Decision::Allowed(Role::Submitter));
    }
}

#[test]
fn the_lowest_role_that_allows_the_call_counts() {
    let every = identity("all", &[Role::Driver, Role::Submitter, Role::Operator], &["*"]);
    let run = Object::run("a", "all");
    assert_eq!(decide(&every, "PlannerService/SubmitPlan", &run), Decision::Allowed(Role::Driver));
    let created = decide(&every, "RunService/CreateRun", &Object::namespace("a"));
    assert_eq!(created, Decision::Allowed(Role::Submitter));
}

#[test]
fn a_token_grants_at_most_what_its_creator_has() {
    let grants = |creator: &[Role], wanted: &[Role]| {
        identity("c", creator, &["a"]).cannot_grant(&wanted.iter().copied().collect())
    };
    assert_eq!(grants(&Role::PERSON, &Role::PERSON), None);
    assert_eq!(grants(&[Role::Operator], &[Role::Driver, Role::Worker]), None);
    assert_eq!(grants(&[Role::Operator], &[Role::Approver]), Some(Role::Approver));
    assert_eq!(grants(&Role::PERSON, &[Role::Service]), Some(Role::Service));
    assert_eq!(grants(&[Role::Submitter], &[Role::Driver]), Some(Role::Driver));
    let only = |names: &[&str]| {
        Namespaces::from_names(names.iter().map(|name| (*name).to_owned())).unwrap()
    };
    assert!(only(&["a", "b"]).covers(&only(&["b"])));
    assert!(!only(&["a"]).covers(&only(&["a", "b"])) && !only(&["a"]).covers(&Namespaces::Every));
    assert!(Namespaces::Every.covers(&Namespaces::Every));
}

#[test]
fn names_and_namespaces_that_could_be_misread_are_refused() {
    for name in ["", "a b", "ä", "a\n", &"x".repeat(MAX_NAME + 1)] {
        let refused = Identity::new(name, [Role::Viewer], Namespaces::Every);
        assert!(matches!(refused, Err(IdentityError::Name(_))), "{name:?}");
    }
    assert!(Identity::new("ci/main@build-1", [Role::Viewer], Namespaces::Every).is_ok());
    let read = |names: &[&str]| Namespaces::from_names(names.iter().map(|n| (*n).to_owned()));
    assert_eq!(read(&[]), Err(IdentityError::NoNamespace));
    assert_eq!(read(&["a", "*"]), Err(IdentityError::EveryAndOthers));
    assert_eq!(read(&["*"]), Ok(Namespaces::Every));
    assert!("god".parse::<Role>().is_err());
}

#[test]
fn every_rule_names_roles_once_and_a_path_that_is_none_has_no_rule() {
    for rule in RULES {
        let roles: BTreeSet<Role> = rule.grants.iter().map(|grant| grant.role).collect();
        assert!(!roles.is_empty() && roles.len() == rule.grants.len(), "{rule:?}");
        let path = format!("/surety.v1.{}/{}", rule.service, rule.method);
        assert_eq!(rule_of(&path), Some(rule));
    }
    for path in ["", "/", "/surety.v1.RunService", "/other.RunService/GetRun", "RunService/GetRun"]
    {
        assert_eq!(rule_of(path), None, "{path}");
    }
}

#[test]
fn no_token_and_no_certificate_has_the_name_of_the_service() {
    for name in ["system", "System"] {
        let refused = Identity::from_columns(name, "driver", "*").map(|it| it.name);
        assert_eq!(refused, Err(IdentityError::Reserved), "{name}");
    }
    assert!(Identity::from_columns("system-1", "driver", "*").is_ok());
}

#[test]
fn a_new_namespace_has_a_name_that_cannot_be_misread() {
    for name in ["default", "team-a", "_toolchain", "a.b/c_D9", &"n".repeat(MAX_NAMESPACE)] {
        assert_eq!(check_namespace("namespace", name), Ok(()), "{name:?}");
        let only = Namespaces::Only([name.to_owned()].into());
        assert_eq!(Namespaces::of_new([name.to_owned()]), Ok(only));
    }
    for name in ["*", "a,b", "a b", "a\nb", "\u{1b}[31m", "default\u{200b}", "d\u{435}fault", "a\0"]
    {
        let refused = check_namespace("namespace", name).unwrap_err();
        assert_eq!(
            (refused.code, refused.field.as_deref()),
            (Code::TypeMismatch, Some("namespace"))
        );
        assert!(refused.message.contains("letters, digits"), "{refused}");
        if name != EVERY_NAMESPACE {
            let expected = Err(IdentityError::Namespace(name.to_owned()));
            assert_eq!(Namespaces::of_new([name.to_owned()]), expected);
            assert!(Namespaces::from_names([name.to_owned()]).is_ok(), "stored rows stay readable");
        }
    }
    let long = check_namespace("namespace", &"n".repeat(MAX_NAMESPACE + 1)).unwrap_err();
    assert_eq!(long.code, Code::TooLarge);
}
