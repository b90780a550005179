//! The table of who may make which call: what the services read, and what the documentation shows.

use super::Role;
use super::Role::{Approver, Driver, Operator, Service, Submitter, Viewer, Worker};
use std::fmt::Write;

/// Of which objects a role may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every object of the identity's namespaces.
    Any,
    /// Only those that the identity created.
    Own,
}

/// One role of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// Of which objects.
    pub scope: Scope,
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// It computes over what is sent along, and keeps nothing.
    Compute,
    /// It reads what is stored.
    Read,
    /// It changes what is stored.
    Change,
    /// It answers for a person: drivers and workers never.
    Answer,
    /// It approves: drivers and workers never, and under four eyes not who requested.
    Approval,
}

/// One call, and who may make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The service, without its package.
    pub service: &'static str,
    /// The method.
    pub method: &'static str,
    /// What it does.
    pub means: Means,
    /// Who may; never empty.
    pub grants: &'static [Grant],
    /// Whether it answers with a stream, which may outlast the identity of its caller.
    pub is_stream: bool,
}

const fn any(role: Role) -> Grant {
    Grant { role, scope: Scope::Any }
}

const fn own(role: Role) -> Grant {
    Grant { role, scope: Scope::Own }
}

const EVERYONE: &[Grant] = &[
    any(Driver),
    any(Worker),
    any(Viewer),
    any(Submitter),
    any(Operator),
    any(Approver),
    any(Service),
];
const READERS: &[Grant] = &[any(Viewer), any(Submitter), any(Operator), any(Approver)];
const READERS_AND_DRIVERS: &[Grant] =
    &[any(Driver), any(Viewer), any(Submitter), any(Operator), any(Approver)];
const OPERATORS: &[Grant] = &[any(Operator)];
const SUBMITTERS: &[Grant] = &[any(Submitter), any(Operator)];
const OWNERS: &[Grant] = &[own(Submitter), any(Operator)];
const PLANNERS: &[Grant] = &[any(Driver), own(Submitter), any(Operator)];
const ASSIGNEES: &[Grant] = &[any(Driver), any(Submitter), any(Operator)];
const APPROVERS: &[Grant] = &[own(Submitter), own(Operator), any(Approver)];
const REVOKERS: &[Grant] = &[own(Submitter), any(Operator), any(Approver)];
const DRIVERS: &[Grant] = &[any(Driver)];
const WORKERS: &[Grant] = &[any(Worker)];
const SERVICES: &[Grant] = &[any(Service)];

const fn rule(
    service: &'static str,
    method: &'static str,
    means: Means,
    grants: &'static [Grant],
) -> Rule {
    Rule { service, method, means, grants, is_stream: false }
}

const fn stream(
    service: &'static str,
    method: &'static str,
    means: Means,
    grants: &'static [Grant],
) -> Rule {
    Rule { service, method, means, grants, is_stream: true }
}

use Means::{Answer, Approval, Change, Compute, Read};

/// Every call that the services know, in the order of the documentation. A call that is not here is
/// answered UNIMPLEMENTED.
pub const RULES: &[Rule] = &[
    rule("RunService", "CreateRun", Change, SUBMITTERS),
    rule("RunService", "ForkRun", Change, SUBMITTERS),
    rule("RunService", "GetRun", Read, READERS),
    rule("RunService", "ListReceipts", Read, READERS),
    rule("RunService", "ListTurns", Read, READERS),
    stream("RunService", "GetOutput", Read, READERS),
    rule("RunService", "ListRuns", Read, READERS),
    stream("RunService", "WatchRun", Read, READERS),
    rule("RunService", "PauseRun", Change, OPERATORS),
    rule("RunService", "ResumeRun", Change, OPERATORS),
    rule("RunService", "CancelRun", Change, OWNERS),
    rule("RunService", "ListWaits", Read, READERS),
    rule("RunService", "AnswerQuestion", Answer, OWNERS),
    rule("RunService", "ResolveConfirmation", Approval, APPROVERS),
    rule("RunService", "RevokeGrant", Change, REVOKERS),
    rule("RunService", "ExtendBudget", Answer, OWNERS),
    stream("RunService", "ExportReceipts", Read, READERS),
    rule("PlannerService", "ParsePlan", Compute, EVERYONE),
    rule("PlannerService", "ValidatePlan", Compute, EVERYONE),
    rule("PlannerService", "ApplyPatch", Compute, EVERYONE),
    rule("PlannerService", "SubmitPlan", Change, PLANNERS),
    rule("PlannerService", "LeasePlan", Change, DRIVERS),
    rule("PlannerService", "HeartbeatPlan", Change, DRIVERS),
    rule("PlannerService", "ReleasePlan", Change, DRIVERS),
    rule("PlannerService", "GetPlan", Read, READERS_AND_DRIVERS),
    rule("PlannerService", "RequestReplan", Change, OWNERS),
    rule("AdminService", "CreateToken", Change, OPERATORS),
    rule("AdminService", "ListTokens", Read, OPERATORS),
    rule("AdminService", "RevokeToken", Change, OPERATORS),
    rule("AdminService", "RotateToken", Change, OPERATORS),
    rule("AdminService", "GetNamespacePolicy", Read, READERS),
    rule("AdminService", "SetNamespacePolicy", Change, OPERATORS),
    rule("AdminService", "ListAuditEvents", Read, OPERATORS),
    rule("ToolchainService", "SubmitActionReport", Change, ASSIGNEES),
    rule("ToolchainService", "ListTasks", Read, READERS_AND_DRIVERS),
    rule("ToolchainService", "GetTask", Read, READERS_AND_DRIVERS),
    rule("ToolchainService", "PutHook", Change, OPERATORS),
    rule("ToolchainService", "ListHooks", Read, OPERATORS),
    rule("ToolchainService", "DeleteHook", Change, OPERATORS),
    rule("ToolchainService", "ListDeliveries", Read, OPERATORS),
    rule("ToolchainService", "GetDelivery", Read, OPERATORS),
    rule("ToolchainService", "ReplayDelivery", Change, OPERATORS),
    rule("ToolchainService", "SendMail", Change, ASSIGNEES),
    rule("ToolchainService", "AddTaskEntry", Change, ASSIGNEES),
    rule("ToolchainService", "ListTaskEntries", Read, READERS_AND_DRIVERS),
    rule("ToolchainService", "SubmitEvent", Change, OPERATORS),
    rule("ToolchainService", "PutAgent", Change, OPERATORS),
    rule("ToolchainService", "ListAgents", Read, READERS),
    rule("ToolchainService", "DeleteAgent", Change, OPERATORS),
    rule("ToolchainService", "ListMail", Read, ASSIGNEES),
    rule("ToolchainService", "ReadMail", Change, ASSIGNEES),
    rule("ToolchainService", "ReplyMail", Change, ASSIGNEES),
    rule("ExecutorService", "ParseDecision", Compute, EVERYONE),
    rule("ExecutorService", "LeaseStep", Change, DRIVERS),
    rule("ExecutorService", "SubmitDecision", Change, DRIVERS),
    rule("ExecutorService", "RecordReceipt", Change, WORKERS),
    rule("ExecutorService", "Heartbeat", Change, DRIVERS),
    rule("ExecutorService", "ReleaseStep", Change, DRIVERS),
    stream("ToolService", "Connect", Change, WORKERS),
    rule("ToolService", "ListTools", Read, EVERYONE),
    rule("AcceptGateService", "Evaluate", Compute, EVERYONE),
    rule("AcceptGateService", "GetVerdict", Read, READERS),
    rule("AcceptGateService", "VerifyReceipts", Read, READERS),
    rule("InternalService", "EvaluateRun", Change, SERVICES),
    rule("ServerInfoService", "GetServerInfo", Read, EVERYONE),
];

/// The package of every service of ours.
const PACKAGE: &str = "surety.v1.";

/// The rule of a call by its HTTP/2 path, `/surety.v1.RunService/GetRun`.
#[must_use]
pub fn rule_of(path: &str) -> Option<&'static Rule> {
    let (service, method) = path.strip_prefix('/')?.strip_prefix(PACKAGE)?.split_once('/')?;
    RULES.iter().find(|rule| rule.method == method && rule.service == service)
}

const INTRODUCTION: &str = "\
# Authorization

<!-- Written by `UPDATE_DOCS=1 cargo test -p surety-common --test pages`; edits are lost. -->

Use this page to find which role may make which call. The services read the same table.

How a call is decided:

1. The call carries a bearer token or comes over a connection with a mapped client certificate. A call \
without one, or with one that is unknown, expired or revoked, answers UNAUTHENTICATED \
`unauthenticated`.
2. A call that no role of the identity allows answers PERMISSION_DENIED `permission_denied`. This is \
decided before any object is read.
3. An object of a namespace that the identity does not reach answers NOT_FOUND with the code of an object that \
does not exist. Lists leave such objects out.
4. A role marked *own* covers only the runs that the identity created. Other runs of its namespaces answer \
PERMISSION_DENIED.
5. Drivers and workers never approve. Under the policy key `four_eyes` the identity that created a run does \
not approve what the run is in doubt about either. An identity that drives a run answers nothing of it for a person, whatever \
role its token has.

Of several roles of one identity the lowest that allows the call counts, in the order of the columns: \
a check that arrives from a submitter belongs to the owner `user`, from an operator to `operator`, from a driver to \
`plan`. A field may lower the owner, never raise it.

gRPC health and the pages `/healthz` and `/metrics` need no identity. Reflection needs any identity. \
[security.md](security.md) says how to make tokens and certificates.

";

/// `docs/authorization.md`, generated.
#[must_use]
pub fn document() -> String {
    let mut page = INTRODUCTION.to_owned();
    // Writing to a String cannot fail, so there is no error to hand on.
    let mut line = |text: std::fmt::Arguments<'_>| page.write_fmt(text).unwrap_or_default();
    line(format_args!("## Roles\n\n| role | what it may do |\n|---|---|\n"));
    for role in Role::ALL {
        line(format_args!("| `{role}` | {} |\n", role.meaning()));
    }
    line(format_args!("\n## Calls\n\n| call | kind |"));
    for role in Role::ALL {
        line(format_args!(" {role} |"));
    }
    line(format_args!("\n|---|---|{}\n", "---|".repeat(Role::ALL.len())));
    for Rule { service, method, means, grants, is_stream: _ } in RULES {
        line(format_args!("| `{service}.{method}` | {} |", word_of(*means)));
        for role in Role::ALL {
            let cell = match grants.iter().find(|grant| grant.role == role) {
                None => "",
                Some(Grant { scope: Scope::Any, .. }) => " yes",
                Some(Grant { scope: Scope::Own, .. }) => " own",
            };
            line(format_args!("{cell} |"));
        }
        line(format_args!("\n"));
    }
    page
}

const fn word_of(means: Means) -> &'static str {
    match means {
        Means::Compute => "computes",
        Means::Read => "reads",
        Means::Change => "changes",
        Means::Answer => "answers",
        Means::Approval => "approves",
    }
}
