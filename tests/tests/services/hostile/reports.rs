//! Reports of workers that claim what is not theirs to say.

use super::{Case, Scene, Victim, held};
use futures::FutureExt;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, WORKER, fence};
use tonic::Status;
use uuid::Uuid;

/// The most facts of a report, and one more.
const TOO_MANY: usize = 201;

/// A report about the victim's step, after a change.
async fn report(
    scene: &Scene,
    victim: &Victim,
    change: impl FnOnce(&mut v1::RecordReceiptRequest, &mut v1::EvidenceReceipt),
) -> Result<v1::EvidenceReceipt, Status> {
    let mut receipt = v1::EvidenceReceipt {
        step_index: Some(0),
        source: v1::EvidenceSource::ToolObservation.into(),
        name: "remote_build".to_owned(),
        success: true,
        ..Default::default()
    };
    let mut request = v1::RecordReceiptRequest {
        fence: Some(v1::StepFence { lease_epoch: 0, ..fence(&victim.work.lease) }),
        receipt: None,
        request_id: Uuid::now_v7().to_string(),
    };
    change(&mut request, &mut receipt);
    request.receipt = Some(receipt);
    let answer = scene.executor(WORKER)?.record_receipt(request).await?.into_inner();
    answer.receipt.ok_or_else(|| Status::internal("no receipt"))
}

fn output(key: &str) -> v1::Fact {
    let (key, value) = (key.to_owned(), "x".to_owned());
    v1::Fact { fact: Some(v1::fact::Fact::Output(v1::fact::Output { key, value })) }
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a driver records a receipt",
            code: "permission_denied",
            act: |scene, victim| {
                async move {
                    let fence = Some(fence(&victim.work.lease));
                    let request = v1::RecordReceiptRequest { fence, ..Default::default() };
                    scene.executor(AGENT)?.record_receipt(request).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report names a check",
            code: "type_mismatch",
            act: |scene, victim| {
                async move {
                    let forged = |_: &mut _, receipt: &mut v1::EvidenceReceipt| {
                        receipt.check_id = "tests".to_owned();
                        receipt.round = 1;
                    };
                    report(scene, victim, forged).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report names the runner's source",
            code: "",
            act: |scene, victim| {
                async move {
                    let forged = |_: &mut _, receipt: &mut v1::EvidenceReceipt| {
                        receipt.source = v1::EvidenceSource::Probe.into();
                        receipt.sandbox = "full".to_owned();
                    };
                    let kept = report(scene, victim, forged).await?;
                    let plain = kept.source() == v1::EvidenceSource::ToolObservation;
                    held(plain && kept.sandbox.is_empty(), kept)
                }
                .boxed()
            },
        },
        Case {
            name: "a report names no source that is known",
            code: "evidence_source_unknown",
            act: |scene, victim| {
                async move { report(scene, victim, |_, receipt| receipt.source = 77).await.map(drop) }.boxed()
            },
        },
        Case {
            name: "a report takes the name of the runner's observation",
            code: "type_mismatch",
            act: |scene, victim| {
                async move {
                    let forged = |_: &mut _, receipt: &mut v1::EvidenceReceipt| {
                        receipt.name = "observe".to_owned()
                    };
                    report(scene, victim, forged).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report names another worker",
            code: "type_mismatch",
            act: |scene, victim| {
                async move {
                    let forged = |_: &mut _, receipt: &mut v1::EvidenceReceipt| {
                        receipt.facts = vec![output("surety.reported_by")]
                    };
                    report(scene, victim, forged).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report under the lease of a driver",
            code: "lease_lost",
            act: |scene, victim| {
                async move {
                    let lease_epoch = victim.work.lease.lease_epoch;
                    let under = |request: &mut v1::RecordReceiptRequest, _: &mut _| {
                        request.fence.iter_mut().for_each(|fence| fence.lease_epoch = lease_epoch);
                    };
                    report(scene, victim, under).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report about another index",
            code: "type_mismatch",
            act: |scene, victim| {
                async move {
                    report(scene, victim, |_, receipt| receipt.step_index = Some(7)).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report about an index below zero",
            code: "step_index_negative",
            act: |scene, victim| {
                async move {
                    report(scene, victim, |_, receipt| receipt.step_index = Some(i64::MIN))
                        .await
                        .map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report without an index",
            code: "step_index_missing",
            act: |scene, victim| {
                async move {
                    report(scene, victim, |_, receipt| receipt.step_index = None).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report of another plan revision",
            code: "version_conflict",
            act: |scene, victim| {
                async move {
                    report(scene, victim, |_, receipt| receipt.plan_revision = 9).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report with too many facts",
            code: "too_large",
            act: |scene, victim| {
                async move {
                    let many = |_: &mut _, receipt: &mut v1::EvidenceReceipt| {
                        receipt.facts = vec![output("a"); TOO_MANY]
                    };
                    report(scene, victim, many).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report of a mebibyte",
            code: "too_large",
            act: |scene, victim| {
                async move {
                    let long = |_: &mut _, receipt: &mut v1::EvidenceReceipt| {
                        receipt.summary = "x".repeat(1 << 20)
                    };
                    report(scene, victim, long).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report without an idempotency key",
            code: "field_missing",
            act: |scene, victim| {
                async move {
                    report(scene, victim, |request, _| request.request_id.clear()).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report with the key of another one",
            code: "request_id_conflict",
            act: |scene, victim| {
                async move {
                    report(scene, victim, |request, _| "twice".clone_into(&mut request.request_id))
                        .await?;
                    let other =
                        |request: &mut v1::RecordReceiptRequest,
                         receipt: &mut v1::EvidenceReceipt| {
                            "twice".clone_into(&mut request.request_id);
                            receipt.success = false;
                        };
                    report(scene, victim, other).await.map(drop)
                }
                .boxed()
            },
        },
        Case {
            name: "a report about no run",
            code: "run_not_found",
            act: |scene, victim| {
                async move {
                    let elsewhere = |request: &mut v1::RecordReceiptRequest, _: &mut _| {
                        let run_id = Uuid::now_v7().to_string();
                        request.fence.iter_mut().for_each(|fence| fence.run_id.clone_from(&run_id));
                    };
                    report(scene, victim, elsewhere).await.map(drop)
                }
                .boxed()
            },
        },
    ]
}
