//! Who owns the checks of a request, and what a driver may not ask for.

use super::*;
use std::sync::Arc;
use surety_common::domain::check::Owner;
use surety_common::domain::fault::Fault;
use surety_common::domain::identity::Role;
use surety_common::wire::v1::{self, create_run_request};

fn check(owner: v1::CheckOwner) -> v1::AcceptCheck {
    let owner = owner.into();
    v1::AcceptCheck { kind: "output_only".to_owned(), owner, ..v1::AcceptCheck::default() }
}

fn request(owner: v1::CheckOwner) -> v1::CreateRunRequest {
    let (id, description) = ("a".to_owned(), "a".to_owned());
    let step = v1::PlanStep { id, description, ..v1::PlanStep::default() };
    let plan = v1::Plan {
        title: "t".to_owned(),
        steps: vec![step],
        verify: vec![check(owner)],
        ..v1::Plan::default()
    };
    let plan_source = Some(create_run_request::PlanSource::Plan(plan));
    v1::CreateRunRequest { plan_source, ..v1::CreateRunRequest::default() }
}

fn owners(role: Role, owner: v1::CheckOwner) -> Result<Vec<Owner>, Fault> {
    let sender = Sender::new("alice", role, Arc::default());
    let (order, _) = read_run_request(request(owner), &sender, None)?;
    Ok(order.plan.unwrap_or_default().verify.into_iter().map(|check| check.owner).collect())
}

#[test]
fn a_check_belongs_to_the_class_of_its_sender_and_a_field_lowers_it_only() {
    use v1::CheckOwner as Sent;
    let cases = [
        (Role::Submitter, Sent::Unspecified, Some(Owner::User)),
        (Role::Submitter, Sent::Plan, Some(Owner::Plan)),
        (Role::Submitter, Sent::User, Some(Owner::User)),
        (Role::Submitter, Sent::Operator, None),
        (Role::Operator, Sent::Unspecified, Some(Owner::Operator)),
        (Role::Operator, Sent::User, Some(Owner::User)),
        (Role::Driver, Sent::Unspecified, Some(Owner::Plan)),
        (Role::Driver, Sent::Operator, Some(Owner::Plan)),
    ];
    for (role, sent, expected) in cases {
        let found = owners(role, sent).ok().map(|owners| owners.first().copied());
        assert_eq!(found, expected.map(Some), "{role} {sent:?}");
    }
}

#[test]
fn a_driver_names_no_command_of_the_runner_and_no_network_twice() {
    let asks = |role: Role, policy: v1::Policy| {
        let mut request = request(v1::CheckOwner::Plan);
        request.policy = Some(policy);
        read_run_request(request, &Sender::new("alice", role, Arc::default()), None)
    };
    let prepare = || v1::Policy { prepare: vec!["npm ci".to_owned()], ..v1::Policy::default() };
    for role in [Role::Submitter, Role::Operator] {
        let (order, _) = asks(role, prepare()).expect("an order");
        assert_eq!(order.policy.prepare, ["npm ci"], "{role}");
    }
    let lint = v1::VerifyTool {
        name: "lint".to_owned(),
        argv: vec!["make".to_owned(), "lint".to_owned()],
        timeout: None,
    };
    let named = v1::Policy { verify_tools: vec![lint], ..v1::Policy::default() };
    let (order, _) = asks(Role::Submitter, named.clone()).expect("an order");
    assert_eq!(order.policy.verify_tools().count(), 1);
    let secrets = v1::Policy { secrets: vec!["npm".to_owned()], ..v1::Policy::default() };
    let (order, _) = asks(Role::Submitter, secrets.clone()).expect("an order");
    assert_eq!(order.policy.secrets, ["npm"]);
    for (policy, field) in
        [(prepare(), "policy.prepare"), (named, "policy.verify_tools"), (secrets, "policy.secrets")]
    {
        let refused = asks(Role::Driver, policy).expect_err("a refusal");
        assert_eq!(refused.field.as_deref(), Some(field));
    }
    let hosts = vec!["a.org".to_owned()];
    let network = |network: v1::NetworkPolicy| v1::Policy {
        network: network.into(),
        hosts: hosts.clone(),
        ..v1::Policy::default()
    };
    let (order, _) = asks(Role::Submitter, network(v1::NetworkPolicy::Hosts)).expect("an order");
    assert_eq!(v1::Policy::from(order.policy).hosts, ["a.org"]);
    let unsandboxed =
        v1::Policy { sandbox: v1::SandboxPolicy::None.into(), ..network(v1::NetworkPolicy::Hosts) };
    for (policy, why) in [
        (network(v1::NetworkPolicy::All), "hosts beside all"),
        (network(v1::NetworkPolicy::HostLoopback), "no port"),
        (unsandboxed, "nothing would bound it"),
    ] {
        let refused = asks(Role::Submitter, policy).expect_err(why);
        assert!(refused.field.is_some_and(|field| field.starts_with("policy.network")), "{why}");
    }
}

#[test]
fn a_check_beside_the_plan_is_treated_as_one_inside() {
    let verify = |role: Role, owner| {
        let request =
            v1::CreateRunRequest { verify: vec![check(owner)], ..request(v1::CheckOwner::Plan) };
        read_run_request(request, &Sender::new("alice", role, Arc::default()), None)
    };
    let refused = verify(Role::Submitter, v1::CheckOwner::Operator).expect_err("a refusal");
    assert_eq!(refused.field.as_deref(), Some("verify[0].owner"));
    let (order, _) = verify(Role::Operator, v1::CheckOwner::Unspecified).expect("an order");
    let owner = order.plan.and_then(|plan| plan.verify.first().map(|check| check.owner));
    assert_eq!(owner, Some(Owner::Operator));
}
