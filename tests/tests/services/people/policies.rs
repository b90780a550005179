//! Which calls need a confirmation, and who may give it.

use super::{APPROVE, Stage, answer, code, confirming};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::client::channel;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::tool_service_client::ToolServiceClient;
use surety_e2e::agent::secret;
use surety_e2e::script::{noop, plan, step, write};

const DAY_S: i64 = 24 * 3600;

async fn set(stage: &Stage, policy: v1::NamespacePolicy) -> Result<()> {
    let set = v1::SetNamespacePolicyRequest {
        namespace: "default".to_owned(),
        policy: Some(policy),
        ..Default::default()
    };
    stage.deployment.admin()?.set_namespace_policy(set).await?;
    Ok(())
}

#[tokio::test]
async fn steps_requests_and_namespaces_add_tools_and_none_takes_one_away() -> Result<()> {
    let stage = Stage::new().await?;
    let mut named = step("only", &[], &[noop(), write("a.txt", "a")]);
    named["confirm_tools"] = json!(["noop"]);
    let plan = plan(&[named]);
    let run = stage.scripted(&plan, v1::Policy::default(), DAY_S).await?;
    let wait = stage.asked(&run).await?;
    ensure!(wait.tool_call.as_ref().is_some_and(|call| call.name == "noop"), "{wait:#?}");
    stage.resolve(&wait, APPROVE).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;

    let destructive = v1::Policy { confirm_destructive: true, ..v1::Policy::default() };
    let without = plan_of_a_write();
    let run = stage.scripted(&without, destructive, DAY_S).await?;
    let wait = stage.asked(&run).await?;
    stage.resolve(&wait, APPROVE).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;

    let tools = vec!["write_*".to_owned()];
    set(&stage, v1::NamespacePolicy { confirm_tools: tools, ..Default::default() }).await?;
    let run = stage.scripted(&without, confirming(&["noop"]), DAY_S).await?;
    let policy = run.policy.clone().context("a policy")?;
    ensure!(policy.confirm_tools == ["write_*", "noop"], "{policy:#?}");
    let wait = stage.asked(&run).await?;
    stage.resolve(&wait, APPROVE).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;

    let url = stage.deployment.executors.first().context("an executor")?.url();
    let mut tools = ToolServiceClient::new(channel(&url, Some(&Token::new(&secret("alice"))?))?);
    for (namespace, expected) in [("", 0), ("default", 1)] {
        let request =
            v1::ListToolsRequest { namespace: namespace.to_owned(), ..Default::default() };
        let listed = tools.list_tools(request).await?.into_inner().tools;
        let needing = listed.iter().filter(|tool| tool.needs_confirmation).count();
        ensure!(needing == expected, "{namespace:?}: {listed:#?}");
    }
    for bad in ["", "a b", "write file"] {
        let created = v1::CreateRunRequest {
            policy: Some(confirming(&[bad])),
            ..surety_e2e::script::request(&without, "")
        };
        let refused = stage.deployment.runs()?.create_run(created).await;
        ensure!(code(refused)? == "type_mismatch", "{bad:?}");
    }
    stage.deployment.finish().await
}

fn plan_of_a_write() -> serde_json::Value {
    plan(&[step("only", &[], &[write("a.txt", "a")])])
}

#[tokio::test]
async fn under_four_eyes_another_person_than_the_creator_approves() -> Result<()> {
    let stage = Stage::new().await?;
    set(&stage, v1::NamespacePolicy { four_eyes: true, ..Default::default() }).await?;
    let run = stage.scripted(&plan_of_a_write(), confirming(&["write_file"]), DAY_S).await?;
    let wait = stage.asked(&run).await?;
    for name in ["alice", "carol", surety_e2e::agent::AGENT] {
        let refused = stage.runs_of(name)?.resolve_confirmation(answer(&wait, APPROVE)).await;
        ensure!(code(refused)? == "permission_denied", "{name}");
    }
    stage.runs_of("bob")?.resolve_confirmation(answer(&wait, APPROVE)).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;
    let said = stage.said(&run).await?;
    ensure!(said.iter().all(|it| it.summary.contains("bob approved")), "{said:#?}");
    stage.deployment.finish().await
}
