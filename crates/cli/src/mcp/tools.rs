//! The tools, as they are listed.

use serde_json::{Map, Value, json};

/// One tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Status,
    Propose,
    Report,
    Check,
    Verdict,
    Ask,
    LeasePlan,
    SubmitPlan,
    Lease,
    Decide,
    Release,
}

impl Tool {
    /// The tools of an agent that is observed, in the order of the list.
    pub(super) const OBSERVED: &[Self] =
        &[Self::Status, Self::Propose, Self::Report, Self::Check, Self::Verdict, Self::Ask];
    /// The tools of an agent that drives runs.
    pub(super) const DRIVING: &[Self] =
        &[Self::LeasePlan, Self::SubmitPlan, Self::Lease, Self::Decide, Self::Release];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Status => "surety_status",
            Self::Propose => "surety_propose_plan",
            Self::Report => "surety_report",
            Self::Check => "surety_check",
            Self::Verdict => "surety_verdict",
            Self::Ask => "surety_ask_person",
            Self::LeasePlan => "surety_lease_plan",
            Self::SubmitPlan => "surety_submit_plan",
            Self::Lease => "surety_lease",
            Self::Decide => "surety_decide",
            Self::Release => "surety_release",
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Status => {
                "Shows the contract of this workspace: the base commit, every check with its owner, the plan, the \
                 next step, what waits for a person, the last round with its evidence, and whether the workspace is still \
                 what it saw."
            }
            Self::Propose => {
                "Proposes a plan: its steps, and checks that would prove the goal. The checks are added to those of \
                 the user, which stay as they are. A check is a command line (\"make test\"), a file that must \
                 exist, or an object with kind and target. After the first round checks can be added only."
            }
            Self::Report => {
                "Reports how a step of the plan went. The report is a claim: it orders the next step, and decides \
                 nothing."
            }
            Self::Check => {
                "Runs every check on the workspace as it is now, with the tests and scripts of the base commit, and \
                 answers each failed check with its evidence. Writes no verdict. Stop writing to the workspace \
                 until it answers."
            }
            Self::Verdict => {
                "As surety_check, and writes the verdict. The work is done when it answers accepted, and not before."
            }
            Self::Ask => {
                "Asks the person a question, where the client has a form for it. Otherwise the question is kept, \
                 and surety_status shows the answer when there is one."
            }
            Self::LeasePlan => {
                "Waits for a run that needs a plan, or a patch of its plan, and leases the making of it. Answers the goal, \
                 the plan so far, why another one is needed, and why the last one was refused."
            }
            Self::SubmitPlan => {
                "Submits the leased plan: its steps, and checks that would prove the goal. The checks of the user stay \
                 as they are. Where the context has a plan, submit a patch with a reason: add_steps, remove_steps, \
                 update_steps. A refused plan is leased and corrected again."
            }
            Self::Lease => {
                "Waits for a step of a run that needs a decision, and leases it. Answers the goal, the step, the tools \
                 that a decision may call, and what happened so far. With run_id and no step to decide it answers what \
                 the run waits for, or how it ended: the verdict."
            }
            Self::Decide => {
                "Submits the decision about the next turn of the leased step. The executor validates it, carries out \
                 its tool call, records receipts, and answers the outcome and the next context."
            }
            Self::Release => {
                "Gives the leased step back, so that another driver can lease it; without a leased step the leased plan."
            }
        }
    }

    /// Whether it may reach or destroy what is outside: a decision's tool call may.
    pub(super) const fn acts(self) -> bool {
        matches!(self, Self::Decide)
    }

    /// Whether it changes nothing.
    pub(super) const fn only_reads(self) -> bool {
        match self {
            Self::Status | Self::Check => true,
            Self::Propose
            | Self::Report
            | Self::Verdict
            | Self::Ask
            | Self::LeasePlan
            | Self::SubmitPlan
            | Self::Lease
            | Self::Decide
            | Self::Release => false,
        }
    }

    pub(super) fn schema(self) -> Map<String, Value> {
        let (properties, required) = self.arguments();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), properties);
        schema.insert("required".to_owned(), json!(required));
        schema.insert("additionalProperties".to_owned(), json!(false));
        schema
    }
}

impl Tool {
    /// The properties of its arguments, and those that it needs.
    fn arguments(self) -> (Value, &'static [&'static str]) {
        match self {
            Self::Status | Self::Check | Self::Verdict => (json!({}), &[]),
            Self::Propose => (plan(), &["title", "steps", "checks"]),
            Self::Report => (
                json!({
                    "step_id": {"type": "string"},
                    "outcome": {"type": "string", "enum": ["started", "done", "failed", "blocked"]},
                    "note": {"type": "string", "description": "What happened, at most 4096 bytes."},
                }),
                &["step_id", "outcome"],
            ),
            Self::Ask => (
                json!({
                    "question": {"type": "string", "description": "At most 4096 bytes."},
                    "options": {"type": "array", "maxItems": 16, "items": {"type": "string"},
                        "description": "Answers to choose from; none for a free text."},
                }),
                &["question"],
            ),
            Self::SubmitPlan => (
                json!({
                    "plan": {"type": "object", "properties": plan_text(), "required": ["title", "steps"]},
                    "patch": {"type": "object", "required": ["reason"], "properties": {
                        "reason": {"type": "string"},
                        "add_steps": {"type": "array", "items": {"type": "object"}},
                        "update_steps": {"type": "array", "items": {"type": "object"}},
                        "remove_steps": {"type": "array", "items": {"type": "string"}},
                    }},
                }),
                &[],
            ),
            Self::Lease | Self::LeasePlan => (
                json!({
                    "wait_seconds": {"type": "integer", "minimum": 0, "maximum": 60},
                    "namespace": {"type": "string"},
                    "namespaces": {"type": "array", "items": {"type": "string"}, "maxItems": 100,
                        "description": "Only steps of these namespaces; none for every one."},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"},
                        "description": "Only steps of runs that carry all of these labels."},
                    "run_id": {"type": "string", "description": "Only steps of this run."},
                }),
                &[],
            ),
            Self::Decide => (
                json!({
                    "decision": {"description": "An object with action and tool_call, as the context describes it, or its text."},
                    "lease_epoch": lease_epoch(),
                }),
                &["decision"],
            ),
            Self::Release => {
                (json!({"reason": {"type": "string"}, "lease_epoch": lease_epoch()}), &[])
            }
        }
    }
}

/// What names a lease.
fn lease_epoch() -> Value {
    json!({"type": ["integer", "string"], "description":
        "The lease_epoch that surety_lease or surety_lease_plan returned. It is needed over HTTP without a session."})
}

/// The properties of a proposed plan.
fn plan() -> Value {
    json!({
        "title": {"type": "string", "description": "A name for the work."},
        "goal": {"type": "string", "description": "What the work is to reach."},
        "steps": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "description": {"type": "string"},
                    "dependencies": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["id", "description"],
            },
        },
        "checks": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string"},
                            "kind": {"type": "string", "description":
                                "command_success, file_exists, content_contains, workspace_change, ..."},
                            "target": {"type": "string"},
                            "params": {"type": "object"},
                            "required": {"type": "boolean"},
                        },
                        "required": ["kind"],
                    },
                ],
            },
        },
    })
}

/// The properties of a plan as the service reads it: its checks are named `verify`.
fn plan_text() -> Value {
    let mut properties = plan();
    if let Some(checks) = properties.as_object_mut().and_then(|it| it.remove("checks")) {
        properties["verify"] = checks;
    }
    properties
}

/// What an agent that drives runs reads first.
pub(super) const DRIVER_INSTRUCTIONS: &str = "You drive runs of Surety. Where a run needs a plan, call \
    surety_lease_plan and surety_submit_plan. Call surety_lease for a step, then answer each turn with surety_decide: one \
    decision, whose tool call the executor carries out, and by which you can ask a person. You run no tool yourself. The \
    gate decides by the recorded evidence whether the run is accepted: surety_lease with the run's id says what the run \
    waits for and how it ended.";

/// What an agent reads first.
pub(super) const INSTRUCTIONS: &str = "You work in this workspace under a contract: the work counts as done only \
    when surety_verdict answers accepted. Call surety_status first. Propose a plan with checks \
    (surety_propose_plan) where the contract has none, work with your own tools, and call surety_check to see what \
    still fails. The user's checks, the base commit and the tests of the base cannot be changed: changing their files \
    has no effect on what is run. Before you stop, call surety_verdict.";
