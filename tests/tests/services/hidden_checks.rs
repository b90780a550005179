//! Hidden checks: files that only the check's view has, and outputs that only their owners read.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use surety_common::domain::fault::FaultClass;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::script::{self, plan, shell, step, write};
use tonic::Status;

/// What the hidden file says, which only its owners may read.
const SECRET: &str = "the-hidden-needle";

fn secret(name: &str) -> String {
    format!("{name}-0123456789abcdef0123456789abcdef")
}

fn token_file() -> Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
    for (name, roles) in [
        ("submitter", "submitter"),
        ("other", "submitter"),
        ("operator", "operator"),
        ("viewer", "viewer"),
        ("both", "submitter,driver"),
        ("service", "service"),
    ] {
        writeln!(file, "{} {name} {roles} *", secret(name))?;
    }
    Ok(file)
}

/// A run of one step whose product special-cases the test that it sees, under a visible and a hidden check.
fn request(workspace: &Path, product: &str) -> v1::CreateRunRequest {
    let mut plan = plan(&[step("writes", &[], &[write("sum.sh", product)])]);
    let hidden = format!(
        "# {SECRET}\necho {SECRET} > leak.txt; mkdir -p target; echo {SECRET} > target/leak.txt\n\
         [ \"$(sh sum.sh 20 22)\" = 42 ] || {{ echo {SECRET}; exit 1; }}\n"
    );
    plan["verify"] = json!([
        {"id": "seen", "kind": "command_success", "target": "sh seen.sh"},
        {"id": "hidden", "kind": "command_success", "target": "sh held/back.sh",
            "overlay": {"held/back.sh": hidden}},
        {"id": "after", "kind": "command_success",
            "target": "! test -e held && ! test -e leak.txt && ! test -e target/leak.txt"},
    ]);
    let mut request = script::request(&plan, &workspace.display().to_string());
    request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
    request
}

fn workspace() -> Result<tempfile::TempDir> {
    let workspace = tempfile::tempdir()?;
    std::fs::write(workspace.path().join("seen.sh"), "[ \"$(sh sum.sh 2 3)\" = 5 ]\n")?;
    std::fs::write(workspace.path().join("sum.sh"), "echo 0\n")?;
    Ok(workspace)
}

/// Everything that a caller reads of a run, as text.
async fn all_that_is_read(deployment: &Deployment, run_id: &str) -> Result<String> {
    let mut runs = deployment.runs()?;
    let view = v1::RunView::Full.into();
    let full = runs.get_run(v1::GetRunRequest { run_id: run_id.to_owned(), view }).await?;
    let list = v1::ListReceiptsRequest { run_id: run_id.to_owned(), ..Default::default() };
    let listed = runs.list_receipts(list).await?;
    let events = deployment.events(run_id).await?;
    Ok(format!("{full:?} {listed:?} {events:?}"))
}

/// The output of a check's command.
async fn output(
    deployment: &Deployment,
    run_id: &str,
    check: &str,
) -> Result<Result<String, Status>> {
    let list = v1::ListReceiptsRequest { run_id: run_id.to_owned(), ..Default::default() };
    let listed = deployment.runs()?.list_receipts(list).await?.into_inner().receipts;
    let of = listed.into_iter().find(|receipt| receipt.check_id == check);
    let call_id = of.context("a receipt")?.call_id;
    let asked = v1::GetOutputRequest { run_id: run_id.to_owned(), call_id, offset: 0, length: 0 };
    let mut parts = match deployment.runs()?.get_output(asked).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return Ok(Err(status)),
    };
    let mut bytes = Vec::new();
    while let Some(part) = parts.message().await? {
        bytes.extend(part.data);
    }
    Ok(Ok(String::from_utf8(bytes)?))
}

#[tokio::test]
async fn a_special_case_meets_inputs_that_it_never_saw_and_only_owners_read_them() -> Result<()> {
    let file = token_file()?;
    let path = file.path().to_string_lossy().into_owned();
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &path)]).await?;
    deployment.use_token(Token::new(&secret("submitter"))?);
    let place = workspace()?;
    let run = deployment.create_run(request(place.path(), "echo 5\n")).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let results = &run.verdict.as_ref().context("a verdict")?.results;
    let reason = |name: &str| {
        let result = results.iter().find(|result| result.name == name);
        result.map(|result| result.reason.as_str())
    };
    assert_eq!(reason("seen"), Some(""), "{results:#?}");
    assert_eq!(reason("hidden"), Some("hidden_check_failed"), "{results:#?}");
    assert_eq!(reason("after"), Some(""), "what it wrote is gone: {results:#?}");
    assert!(!place.path().join("held").exists(), "the workspace never has its files");
    let message = run.terminal.as_ref().map(|terminal| terminal.user_message.as_str());
    assert!(message.is_some_and(|message| !message.contains("exit code")), "{message:?}");
    for (name, reads) in [
        ("submitter", true),
        ("operator", true),
        ("other", false),
        ("viewer", false),
        ("both", false),
    ] {
        deployment.use_token(Token::new(&secret(name))?);
        let read = all_that_is_read(&deployment, &run.id).await?;
        assert!(!read.contains(SECRET), "{name}: neither plans nor events have its text");
        let line = read.matches("sh held/back.sh").count();
        assert!(line > 0, "{name}: the line itself is in the plan");
        match output(&deployment, &run.id, "hidden").await? {
            Ok(text) => assert!(reads && text.contains(SECRET), "{name}: {text}"),
            Err(status) => {
                assert!(!reads, "{name}: {status}");
                assert_eq!(from_status(&status).class, FaultClass::PermissionDenied, "{name}");
            }
        }
        let export = v1::ExportReceiptsRequest { run_id: run.id.clone() };
        let exported = deployment.runs()?.export_receipts(export).await;
        assert_eq!(exported.is_ok(), reads, "{name}");
    }
    deployment.use_token(Token::new(&secret("submitter"))?);
    let honest = workspace()?;
    let run = deployment.create_run(request(honest.path(), "echo $(($1 + $2))\n")).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn an_overlay_that_cannot_be_is_named_before_anything_runs() -> Result<()> {
    let deployment = Deployment::start().await?;
    let check = |overlay: Value, more: Value| {
        let mut check = json!({"kind": "command_success", "target": "sh a.sh", "overlay": overlay});
        for (key, value) in more.as_object().into_iter().flatten() {
            check[key] = value.clone();
        }
        check
    };
    let inside = || json!({"a.sh": "true"});
    for (check, policy, expected) in [
        (
            check(json!({"../a.sh": "x"}), json!({})),
            v1::VerifyCommands::Runner,
            "overlay_path_invalid",
        ),
        (
            check(json!({"/a.sh": "x"}), json!({})),
            v1::VerifyCommands::Runner,
            "overlay_path_invalid",
        ),
        (
            check(inside(), json!({"owner": "plan"})),
            v1::VerifyCommands::Runner,
            "overlay_not_allowed",
        ),
        (
            check(inside(), json!({"required": false})),
            v1::VerifyCommands::Runner,
            "overlay_not_allowed",
        ),
        (check(inside(), json!({})), v1::VerifyCommands::ReceiptsOnly, "overlay_not_allowed"),
        (
            json!({"kind": "command_success", "target": "true", "overlay_digest": "0".repeat(64)}),
            v1::VerifyCommands::Runner,
            "overlay_unknown",
        ),
    ] {
        let mut plan = plan(&[step("only", &[], &[shell("true")])]);
        plan["verify"] = json!([check]);
        let mut request = script::request(&plan, "");
        let verify_commands = policy.into();
        request.policy = Some(v1::Policy { verify_commands, ..Default::default() });
        let refused = deployment.runs()?.create_run(request).await;
        let status = refused.err().with_context(|| format!("a refusal of {check}"))?;
        let said = from_status(&status).reason.to_string();
        ensure!(said.contains(expected), "{check}: {said}");
    }
    let mut plan = plan(&[step("only", &[], &[shell("true")])]);
    let plans = check(inside(), json!({"owner": "plan"}));
    let stored =
        json!({"kind": "command_success", "target": "true", "overlay_digest": "0".repeat(64)});
    for (check, expected) in [(plans, "overlay_not_allowed"), (stored, "overlay_unknown")] {
        plan["steps"][0]["verify"] = json!([check]);
        let refused = deployment.runs()?.create_run(script::request(&plan, "")).await;
        let said = from_status(&refused.err().context("a refusal")?).reason.to_string();
        ensure!(said.contains(expected), "{said}");
    }
    deployment.finish().await
}

/// A policy whose check is hidden, and the same with another key changed, as a caller sends it that only read
/// the digest.
async fn set_policy(deployment: &Deployment) -> Result<()> {
    let mut admin = deployment.admin()?;
    let hidden = format!("echo {SECRET}\n[ \"$(sh sum.sh 20 22)\" = 42 ]\n");
    let check = v1::AcceptCheck {
        id: "house".to_owned(),
        kind: "command_success".to_owned(),
        target: "sh held/house.sh".to_owned(),
        overlay: [("held/house.sh".to_owned(), hidden.into_bytes())].into(),
        ..Default::default()
    };
    let policy = v1::NamespacePolicy { checks: vec![check], ..Default::default() };
    let namespace = "default".to_owned();
    let set = v1::SetNamespacePolicyRequest {
        namespace: namespace.clone(),
        policy: Some(policy),
        ..Default::default()
    };
    let answer = admin.set_namespace_policy(set).await?.into_inner();
    ensure!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
    let get = v1::GetNamespacePolicyRequest { namespace: namespace.clone() };
    let read = admin.get_namespace_policy(get).await?.into_inner();
    ensure!(!format!("{read:?}").contains(SECRET), "{read:?}");
    let policy = read.policy.map(|policy| v1::NamespacePolicy { refuse_network: true, ..policy });
    let set = v1::SetNamespacePolicyRequest { namespace, policy, ..Default::default() };
    let answer = admin.set_namespace_policy(set).await?.into_inner();
    ensure!(answer.version == 2, "{answer:?}");
    let audit = admin.list_audit_events(v1::ListAuditEventsRequest::default()).await?;
    ensure!(!format!("{audit:?}").contains(SECRET), "the audit has digests alone");
    Ok(())
}

/// A run whose step and whose plan have hidden checks.
fn request_with_hidden_step(workspace: &Path, product: &str) -> v1::CreateRunRequest {
    let mut plan = plan(&[step("writes", &[], &[write("sum.sh", product)])]);
    let hidden = format!("echo {SECRET}\n[ \"$(sh sum.sh 4 5)\" = 9 ]\n");
    plan["steps"][0]["verify"] = json!([
        {"id": "of-step", "kind": "command_success", "target": "sh held/step.sh",
            "overlay": {"held/step.sh": hidden}},
    ]);
    plan["verify"] = json!([{"id": "seen", "kind": "command_success", "target": "sh seen.sh"}]);
    let mut request = script::request(&plan, &workspace.display().to_string());
    request.limits = Some(v1::Limits {
        max_repairs: Some(0),
        step_deadline: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
        ..Default::default()
    });
    request
}

#[tokio::test]
async fn hidden_checks_of_steps_and_of_a_namespace_keep_their_secret() -> Result<()> {
    let file = token_file()?;
    let path = file.path().to_string_lossy().into_owned();
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &path)]).await?;
    deployment.use_token(Token::new(&secret("operator"))?);
    set_policy(&deployment).await?;
    let (honest, of_step) = ("echo $(($1 + $2))\n", "echo 5\n");
    for (product, check, expected) in [
        (honest, "house", v1::RunState::Done),
        (of_step, "of-step", v1::RunState::Failed),
        // It knows the inputs of the visible check and of the step's.
        ("case $1$2 in 23) echo 5 ;; *) echo 9 ;; esac\n", "house", v1::RunState::Failed),
    ] {
        deployment.use_token(Token::new(&secret("submitter"))?);
        let place = workspace()?;
        let request = request_with_hidden_step(place.path(), product);
        let run = deployment.create_run(request).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), expected, "{product}: {run:#?}");
        assert!(!place.path().join("held").exists(), "the workspace never has its files");
        for (name, reads) in [
            ("operator", true),
            // The submitter owns its own hidden checks, and not those of an operator.
            ("submitter", check == "of-step"),
            ("viewer", false),
            ("both", false),
        ] {
            deployment.use_token(Token::new(&secret(name))?);
            let read = all_that_is_read(&deployment, &run.id).await?;
            assert!(!read.contains(SECRET), "{name}: neither plans nor events have its text");
            match output(&deployment, &run.id, check).await? {
                Ok(_) => assert!(reads, "{name}: {check}"),
                Err(status) => {
                    assert!(!reads, "{name}: {check}: {status}");
                    assert_eq!(from_status(&status).class, FaultClass::PermissionDenied, "{name}");
                }
            }
            let export = v1::ExportReceiptsRequest { run_id: run.id.clone() };
            let exported = deployment.runs()?.export_receipts(export).await;
            assert_eq!(exported.is_ok(), name == "operator", "{name}");
        }
        if expected == v1::RunState::Failed {
            deployment.use_token(Token::new(&secret("viewer"))?);
            let read = all_that_is_read(&deployment, &run.id).await?;
            assert!(read.contains("hidden_check_failed"), "{read}");
        }
    }
    deployment.finish().await
}

#[tokio::test]
async fn lines_of_a_namespace_prepare_the_view_of_each_run_before_its_checks() -> Result<()> {
    let file = token_file()?;
    let path = file.path().to_string_lossy().into_owned();
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &path)]).await?;
    let place = tempfile::tempdir()?;
    std::fs::write(place.path().join(".gitignore"), "deps/\n")?;
    std::fs::write(place.path().join("lib.sh"), "echo ready\n")?;
    let mut plan = plan(&[step("writes", &[], &[write("out.txt", "text")])]);
    plan["verify"] = json!([
        {"id": "deps", "kind": "command_success", "target": "sh deps/lib.sh", "owner": "user"}]);
    let mut request = script::request(&plan, &place.path().display().to_string());
    request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
    for (lines, expected) in [
        (vec![], v1::RunState::Failed),
        (vec!["mkdir -p deps && cp lib.sh deps/lib.sh".to_owned()], v1::RunState::Done),
    ] {
        deployment.use_token(Token::new(&secret("operator"))?);
        let policy = v1::NamespacePolicy { prepare: lines, ..Default::default() };
        let set = v1::SetNamespacePolicyRequest {
            namespace: "default".to_owned(),
            policy: Some(policy),
            ..Default::default()
        };
        deployment.admin()?.set_namespace_policy(set).await?;
        deployment.use_token(Token::new(&secret("submitter"))?);
        let run = deployment.create_run(request.clone()).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        ensure!(run.state() == expected, "{run:#?}");
        ensure!(!place.path().join("deps").exists(), "the workspace stays as it is");
    }
    deployment.finish().await
}
