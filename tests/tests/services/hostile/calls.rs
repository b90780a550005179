//! Calls that are a person's, a service's or another participant's to make.

use super::{Case, held};
use futures::FutureExt;
use serde_json::json;
use surety_common::wire::client::channel;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::internal_service_client::InternalServiceClient;
use surety_e2e::agent::{AGENT, FOREIGN, OTHER, PERSON, WORKER, call, fence};
use tonic::Status;

/// The most leases of one heartbeat, and one more.
const TOO_MANY: usize = 1001;

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a heartbeat for the lease of another identity",
            code: "",
            act: |scene, victim| {
                async move {
                    let own = [fence(&victim.work.lease)];
                    let beat = scene.of(OTHER)?.heartbeat(&own).await?;
                    held(beat.lost == own && beat.expires_at.is_none(), beat)
                }
                .boxed()
            },
        },
        Case {
            name: "a heartbeat for more leases than one may name",
            code: "limit_out_of_range",
            act: |scene, victim| {
                async move {
                    let many = vec![fence(&victim.work.lease); TOO_MANY];
                    scene.of(OTHER)?.heartbeat(&many).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a heartbeat that names no run",
            code: "field_missing",
            act: |scene, _| {
                async move { scene.of(OTHER)?.heartbeat(&[v1::StepFence::default()]).await.map(drop) }.boxed()
            },
        },
        Case {
            name: "a release of the lease of another identity",
            code: "lease_lost",
            act: |scene, victim| {
                async move { scene.of(OTHER)?.release(&victim.work).await.map(drop) }.boxed()
            },
        },
        Case {
            name: "a second release",
            code: "lease_lost",
            act: |_, victim| {
                async move {
                    victim.agent.release(&victim.work).await?;
                    victim.agent.release(&victim.work).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a lease of a run of another namespace",
            code: "run_not_found",
            act: |scene, victim| {
                async move { scene.of(FOREIGN)?.lease(&victim.run_id, 0).await.map(drop) }.boxed()
            },
        },
        Case {
            name: "a long poll of another namespace sees no step",
            code: "",
            act: |scene, victim| {
                async move {
                    victim.agent.release(&victim.work).await?;
                    let offered = scene.of(FOREIGN)?.lease("", 1).await?;
                    held(offered.is_none(), offered)
                }
                .boxed()
            },
        },
        Case {
            name: "a name of a driver that is too long",
            code: "too_large",
            act: |scene, _| {
                async move {
                    let driver_id = "a".repeat(201);
                    let request = v1::LeaseStepRequest { driver_id, ..Default::default() };
                    scene.executor(OTHER)?.lease_step(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a name of a driver that steers a terminal",
            code: "type_mismatch",
            act: |scene, _| {
                async move {
                    let driver_id = "\u{1b}[2J".to_owned();
                    let request = v1::LeaseStepRequest { driver_id, ..Default::default() };
                    scene.executor(OTHER)?.lease_step(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a namespace that cannot be stored",
            code: "type_mismatch",
            act: |scene, _| {
                async move {
                    let (driver_id, namespace) = ("agent-1".to_owned(), "\0".to_owned());
                    let request =
                        v1::LeaseStepRequest { driver_id, namespace, ..Default::default() };
                    scene.executor(OTHER)?.lease_step(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a wait below zero",
            code: "limit_out_of_range",
            act: |scene, _| {
                async move {
                    let wait = Some(prost_types::Duration { seconds: i64::MIN, nanos: i32::MIN });
                    let driver_id = "agent-1".to_owned();
                    let request = v1::LeaseStepRequest { driver_id, wait, ..Default::default() };
                    let answer = scene.executor(OTHER)?.lease_step(request).await?.into_inner();
                    held(answer.lease.is_none(), answer)
                }
                .boxed()
            },
        },
        Case {
            name: "a worker leases a decision",
            code: "permission_denied",
            act: |scene, victim| {
                async move { scene.of(WORKER)?.lease(&victim.run_id, 0).await.map(drop) }.boxed()
            },
        },
        Case {
            name: "a person submits a decision",
            code: "permission_denied",
            act: |scene, victim| {
                async move { scene.of(PERSON)?.submit(&victim.work, "{}").await.map(drop) }.boxed()
            },
        },
        Case {
            name: "no token",
            code: "unauthenticated",
            act: |scene, _| {
                async move {
                    let executor = scene.deployment.executors.first();
                    let url = executor.ok_or_else(|| Status::internal("no executor"))?.url();
                    let channel = channel(&url, None).map_err(super::broken)?;
                    let request = v1::LeaseStepRequest::default();
                    ExecutorServiceClient::new(channel).lease_step(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a driver reads the run",
            code: "permission_denied",
            act: |scene, victim| {
                async move {
                    let request = v1::GetRunRequest { run_id: victim.run_id.clone(), view: 0 };
                    scene.runs(AGENT)?.get_run(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a driver cancels the run",
            code: "permission_denied",
            act: |scene, victim| {
                async move {
                    let run_id = victim.run_id.clone();
                    let request = v1::CancelRunRequest { run_id, ..Default::default() };
                    scene.runs(AGENT)?.cancel_run(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a driver creates a run",
            code: "permission_denied",
            act: |scene, _| {
                async move {
                    scene.runs(AGENT)?.create_run(v1::CreateRunRequest::default()).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a driver answers its own question",
            code: "permission_denied",
            act: |scene, victim| {
                async move {
                    let ask = json!({"action": "ask_user", "speak": "May I?"}).to_string();
                    victim.agent.submit(&victim.work, &ask).await?;
                    let question = scene.deployment.question(&victim.run_id).await;
                    let wait_id = question.map_err(super::broken)?.wait_id;
                    let answer = "yes".to_owned();
                    let request =
                        v1::AnswerQuestionRequest { wait_id, answer, ..Default::default() };
                    scene.runs(AGENT)?.answer_question(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a driver approves a confirmation",
            code: "permission_denied",
            act: |scene, _| {
                async move {
                    let request = v1::ResolveConfirmationRequest {
                        wait_id: uuid::Uuid::now_v7().to_string(),
                        answer: v1::ConfirmationAnswer::Approve.into(),
                        ..Default::default()
                    };
                    scene.runs(AGENT)?.resolve_confirmation(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a driver asks the gate for the verdict",
            code: "permission_denied",
            act: |scene, victim| {
                async move {
                    let channel = scene.channel(&scene.deployment.gate.url(), AGENT)?;
                    let run_id = victim.run_id.clone();
                    let request = v1::EvaluateRunRequest { run_id, lease_epoch: 1 };
                    InternalServiceClient::new(channel).evaluate_run(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a plan for a run that wants none",
            code: "plan_not_wanted",
            act: |scene, victim| {
                async move {
                    let text = json!({"title": "t", "steps": [{"id": "a", "description": "a"}]});
                    let source = v1::submit_plan_request::PlanSource::PlanText(text.to_string());
                    let request = v1::SubmitPlanRequest {
                        run_id: victim.run_id.clone(),
                        expected_revision: 1,
                        plan_source: Some(source),
                        lease_epoch: 1,
                        ..Default::default()
                    };
                    scene.plans(AGENT)?.submit_plan(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a plan of an agent that leased none, of a run that wants none",
            code: "plan_not_wanted",
            act: |scene, victim| {
                async move {
                    let source = v1::submit_plan_request::PlanSource::PlanText("{}".to_owned());
                    let request = v1::SubmitPlanRequest {
                        run_id: victim.run_id.clone(),
                        plan_source: Some(source),
                        ..Default::default()
                    };
                    scene.plans(AGENT)?.submit_plan(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a call of a tool that the step may not use is only corrected",
            code: "",
            act: |_, victim| {
                async move {
                    let fly = call("sudo", json!({})).to_string();
                    let answer = victim.agent.submit(&victim.work, &fly).await?;
                    let refused = answer.outcome() == v1::TurnOutcome::Corrected;
                    held(refused && answer.correction.contains("unknown_tool"), answer)
                }
                .boxed()
            },
        },
    ]
}
