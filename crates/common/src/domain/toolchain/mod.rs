//! Events of a forge (Gitea, Forgejo, GitHub): a delivery becomes tasks, an ignored event or a refusal.
//!
//! ```text
//!   Delivery --read--> Tasks([ToolchainEvent])   one for each account or role that must act
//!                  \-> Ignored(reason)           nothing to do, with the reason
//!                  \-> Err(Problem)              no usable payload
//! ```
//!
//! The address of the hook decides the forge, never a header: a delivery of Gitea carries GitHub's headers too.
//! Names of accounts, repositories and commits are validated here, because they become parts of instructions.

mod action;
mod agent;
mod brief;
mod builds;
mod delivery;
mod event;
mod failure;
mod forge;
mod hook;
mod intent;
mod issues;
mod language;
mod mention;
mod order;
mod own;
mod payload;
mod probe;
mod pulls;
mod reading;
mod report;
mod risk;
mod role;
mod source;
mod steps;
mod subject;
mod task;
mod withdrawal;
mod words;
mod workspace;

/// Whether the runs of a namespace are tasks: the service makes them, and their waits are offered to the agent that must act,
/// and to no other. Every task type has a namespace that begins with `_`, so a further type is named nowhere else.
pub fn is_task_namespace(name: &str) -> bool {
    name.starts_with('_')
}

pub use action::{ActionType, EventType};
pub use agent::{Agent, AgentDriver, MAX_CONCURRENCY};
pub use brief::{MAX_BRIEF, brief};
pub use delivery::{Delivery, MAX_DELIVERY};
pub use event::{
    Assignee, FailedCheck, Ignored, LineComment, MAX_CHANGED_FILES, MAX_FAILED_CHECKS,
    ToolchainEvent, failed_commit,
};
pub use failure::{
    CHAIN_BOUND, FailureClass, MAX_BUSINESS_FAILURES, MAX_CHAIN_DEPTH, MAX_CHAIN_TASKS,
    TaskFailure, TaskOutcome, chain_has_room,
};
pub use forge::Forge;
pub use hook::{BodyKind, DeliveryState, Hook, MAX_HOOK_SECRETS};
pub use intent::Intent;
pub use language::Language;
pub use order::{
    Placed, asks_for_same_review, asks_the_same, authors_of, commit_of, is_superseded, reviewer_of,
    supersedes,
};
pub use own::{OwnAccount, marker, marks_own, may_be_own};
pub use payload::{is_login, is_repository};
pub use probe::{
    ChecksState, FORGE_TARGET, Finding, NotAsked, ProbeFacts, ProbeMode, ProbeQuestion,
    ProbeReason, PullFact, ReviewFact, Wanted, decide, own_part_holds, refers_to, repository_of,
    reviewed_commit,
};
pub use reading::Reading;
pub use report::{
    ANY_LONG_COMMENT, ANY_OUTPUT, Compatibility, LONG_COMMENT, ReportResult, THIN_REPORT,
    TaskEntry, TaskFacts, is_blank, judge,
};
pub use risk::{RiskLevel, RiskRules};
pub use role::Role;
pub use source::Rules;
pub use subject::Subject;
pub use task::{EntryKind, INFRASTRUCTURE_ROLE, MAX_STEPS, SYSTEM, TaskPayload};
pub use withdrawal::{Withdrawal, WithdrawnFrom};
pub use workspace::{PushBranch, push_branch, workspace_revision};
