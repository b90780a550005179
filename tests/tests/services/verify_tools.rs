//! Named verification commands: the runner's own run of a command decides a `tool_fact` check.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::script::{self, plan, step, write};

/// A command that holds where `a.txt` has the word `good`.
fn lint() -> v1::VerifyTool {
    let argv = ["grep", "-q", "good", "a.txt"].map(str::to_owned).to_vec();
    v1::VerifyTool { name: "lint".to_owned(), argv, timeout: None }
}

fn tool_fact(params: &Value) -> Value {
    json!({"id": "lint", "kind": "tool_fact", "params": params, "owner": "user"})
}

fn verify(arguments: &Value) -> Value {
    json!({"name": "verify", "arguments": arguments})
}

fn request(calls: &[Value], check: Value, workspace: &Path) -> v1::CreateRunRequest {
    let mut plan = plan(&[step("s", &[], calls)]);
    plan["verify"] = json!([check]);
    v1::CreateRunRequest {
        policy: Some(v1::Policy { verify_tools: vec![lint()], ..v1::Policy::default() }),
        limits: Some(v1::Limits { max_repairs: Some(0), ..v1::Limits::default() }),
        ..script::request(&plan, &workspace.display().to_string())
    }
}

fn verifications(receipts: &[v1::EvidenceReceipt]) -> Vec<(v1::EvidenceSource, bool)> {
    let of = |receipt: &v1::EvidenceReceipt| {
        let passed = receipt.facts.iter().find_map(|fact| match &fact.fact {
            Some(v1::fact::Fact::Verification(it)) if it.tool == "lint" => Some(it.passed),
            Some(_) | None => None,
        });
        Some((receipt.source(), passed?))
    };
    receipts.iter().filter_map(of).collect()
}

#[tokio::test]
async fn the_runners_own_run_of_the_round_decides_and_no_receipt_of_a_step() -> Result<()> {
    use v1::EvidenceSource::{Probe, ToolObservation};
    let deployment = Deployment::start().await?;
    let good = || write("a.txt", "good");
    let call = || verify(&json!({"tool": "lint"}));
    let any = json!({"tool": "lint", "source": "any"});
    for (calls, params, expected, seen) in [
        (vec![good()], json!({"tool": "LINT"}), true, vec![(Probe, true)]),
        (
            vec![good(), call(), write("a.txt", "bad")],
            json!({"tool": "lint"}),
            false,
            vec![(ToolObservation, true), (Probe, false)],
        ),
        (vec![good(), call(), write("a.txt", "bad")], any, true, vec![(ToolObservation, true)]),
    ] {
        let workspace = tempfile::tempdir()?;
        let request = request(&calls, tool_fact(&params), workspace.path());
        let run = deployment.create_run(request).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        ensure!((run.state() == v1::RunState::Done) == expected, "{params}: {run:#?}");
        let request = v1::ListReceiptsRequest { run_id: run.id.clone(), ..Default::default() };
        let receipts = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
        assert_eq!(verifications(&receipts), seen, "{receipts:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_step_ends_once_its_verification_command_passes() -> Result<()> {
    let deployment = Deployment::start().await?;
    for (content, expected) in [("good", true), ("bad", false)] {
        let workspace = tempfile::tempdir()?;
        let mut one = step("s", &[], &[write("a.txt", content)]);
        one["verify"] = json!([tool_fact(&json!({"tool": "lint"}))]);
        let request = v1::CreateRunRequest {
            policy: Some(v1::Policy { verify_tools: vec![lint()], ..v1::Policy::default() }),
            ..script::request(&plan(&[one]), &workspace.path().display().to_string())
        };
        let run = deployment.create_run(request).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        ensure!((run.state() == v1::RunState::Done) == expected, "{content}: {run:#?}");
        let request = v1::ListReceiptsRequest { run_id: run.id.clone(), ..Default::default() };
        let receipts = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
        let seen = verifications(&receipts);
        ensure!(seen.contains(&(v1::EvidenceSource::Probe, expected)), "{receipts:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn an_unknown_name_is_answered_with_those_that_the_run_has() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let calls = [write("a.txt", "good"), verify(&json!({"tool": "format"}))];
    let check = tool_fact(&json!({"tool": "lint"}));
    let run = deployment.create_run(request(&calls, check, workspace.path())).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let request = v1::ListReceiptsRequest { run_id: run.id.clone(), ..Default::default() };
    let receipts = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
    let answer = receipts.iter().find(|receipt| receipt.name == "verify").context("a receipt")?;
    ensure!(answer.summary.contains("verify_tool_unknown"), "{}", answer.summary);
    ensure!(answer.summary.contains("use one of lint"), "{}", answer.summary);
    deployment.finish().await
}

#[tokio::test]
async fn a_check_without_its_command_makes_no_run() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let create = |params: Value, tools: Vec<v1::VerifyTool>| {
        let mut request = request(&[write("a.txt", "good")], tool_fact(&params), workspace.path());
        request.policy = Some(v1::Policy { verify_tools: tools, ..v1::Policy::default() });
        deployment.create_run(request)
    };
    for (params, tools, code, field) in [
        (json!({"tool": "format"}), vec![lint()], "verify_tool_unknown", "verify[0].params.tool"),
        (json!({"scope": "src"}), vec![lint()], "verify_tool_unknown", "verify[0].params.tool"),
        (json!({"tool": "lint"}), vec![], "verify_tool_unknown", "verify[0].params.tool"),
        (
            json!({"tool": "lint", "scope": "src"}),
            vec![lint()],
            "verify_scope_invalid",
            "verify[0].params.scope",
        ),
        (
            json!({"tool": "lint"}),
            vec![lint(), lint()],
            "type_mismatch",
            "policy.verify_tools[1].name",
        ),
    ] {
        let refused = create(params.clone(), tools).await.err().context("a refusal")?;
        let status = refused.downcast_ref::<tonic::Status>().context("a status")?;
        let fault = from_status(status);
        let found = (fault.reason.as_str(), fault.field.as_deref());
        assert_eq!(found, (code, Some(field)), "{params}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_namespace_names_commands_that_requests_cannot_replace() -> Result<()> {
    let deployment = Deployment::start().await?;
    let set = |policy: v1::NamespacePolicy| v1::SetNamespacePolicyRequest {
        namespace: "default".to_owned(),
        policy: Some(policy),
        ..Default::default()
    };
    let check = v1::AcceptCheck {
        kind: "tool_fact".to_owned(),
        params: [("tool".to_owned(), "lint".to_owned())].into(),
        ..v1::AcceptCheck::default()
    };
    let checked = v1::NamespacePolicy { checks: vec![check.clone()], ..Default::default() };
    let refused = deployment.admin()?.set_namespace_policy(set(checked.clone())).await;
    let refused = from_status(&refused.err().context("a refusal")?);
    assert_eq!(refused.reason.as_str(), "verify_tool_unknown");
    let named = v1::NamespacePolicy { verify_tools: vec![lint()], ..checked };
    deployment.admin()?.set_namespace_policy(set(named)).await?;
    let workspace = tempfile::tempdir()?;
    let own = tool_fact(&json!({"tool": "lint"}));
    let mut wanted = request(&[write("a.txt", "good")], own, workspace.path());
    let taken = deployment.create_run(wanted.clone()).await.err().context("a refusal")?;
    let status = taken.downcast_ref::<tonic::Status>().context("a status")?;
    assert_eq!(from_status(status).reason.as_str(), "policy_exceeded");
    wanted.policy = None;
    let run = deployment.create_run(wanted).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}
