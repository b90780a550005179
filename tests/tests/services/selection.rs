//! Participants name the namespaces and the labels of what they take: steps, plans and calls of tools.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use surety_common::domain::fault::Reason;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_e2e::agent::{AGENT, Agent, FOREIGN, PERSON, WORKER, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request, step};
use surety_e2e::worker::{Worker, admit, announce, entry, result, tool};
use tempfile::NamedTempFile;
use tonic::Status;

const TOOL: &str = "translate";

struct Stage {
    deployment: Deployment,
    _tokens: NamedTempFile,
}

impl Stage {
    async fn start() -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let environment = [
            ("SURETY_TOKEN_FILE", path.as_str()),
            ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "300000"),
            ("SURETY_EXECUTOR_WORKER_LEASE_MS", "300000"),
        ];
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        deployment.add_executor(&[]).await?;
        Ok(Self { deployment, _tokens: tokens })
    }

    fn agent(&self, identity: &str) -> Result<Agent> {
        Agent::new(self.deployment.executors.first().context("an executor")?, identity, "one")
    }

    fn planner(&self, identity: &str) -> Result<PlannerServiceClient<ServiceChannel>> {
        let channel =
            channel(&self.deployment.planner.url(), Some(&Token::new(&secret(identity))?))?;
        Ok(PlannerServiceClient::new(channel))
    }

    /// A run of one step that an agent decides, once its wait is open.
    async fn driven(&self, namespace: &str, priority: i32, of: &[(&str, &str)]) -> Result<String> {
        let plan = plan(&[json!({"id": "s", "description": "decide", "evidence": "none"})]);
        let request = v1::CreateRunRequest {
            namespace: namespace.to_owned(),
            driver: v1::Driver::Remote.into(),
            labels: labels(of),
            priority,
            ..request(&plan, "")
        };
        let run_id = self.deployment.create_run(request).await?.id;
        let waits =
            |run: &v1::Run| run.steps.iter().any(|step| step.state() == v1::StepState::Waiting);
        self.deployment.wait_for(&run_id, "waiting for its driver", waits).await?;
        Ok(run_id)
    }
}

fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

/// What an agent asks for, without waiting.
fn steps(namespaces: &[&str], of: &[(&str, &str)]) -> v1::LeaseStepRequest {
    v1::LeaseStepRequest {
        namespaces: names(namespaces),
        labels: labels(of),
        wait: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        ..v1::LeaseStepRequest::default()
    }
}

/// The code of a refusal, and what it says.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<(String, String)> {
    let status = answer.err().context("the call was answered")?;
    let code = match from_status(&status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    };
    Ok((code, status.message().to_owned()))
}

#[tokio::test]
async fn steps_are_leased_by_turns_between_namespaces_then_by_priority_then_by_age() -> Result<()> {
    let stage = Stage::start().await?;
    let mut runs = BTreeMap::new();
    for (name, namespace, priority) in [
        ("a old", "a", 0),
        ("a late", "a", 0),
        ("a urgent", "a", 5),
        ("b low", "b", -1),
        ("b old", "b", 0),
        ("c", "c", 0),
    ] {
        runs.insert(stage.driven(namespace, priority, &[]).await?, name);
    }
    let agent = stage.agent(AGENT)?;
    let mut order = Vec::new();
    for _ in 0..runs.len() {
        let work = agent.lease_as(steps(&["a", "b", "c"], &[])).await?.context("a step")?;
        order.push(*runs.get(&work.lease.run_id).context("a run of this test")?);
    }
    ensure!(order == ["a urgent", "b old", "c", "a old", "b low", "a late"], "{order:?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn an_agent_takes_steps_of_the_namespaces_and_labels_that_it_names() -> Result<()> {
    let stage = Stage::start().await?;
    let (team, gpu) = (("team", "a"), ("gpu", "yes"));
    stage.driven("a", 9, &[]).await?;
    let of_team = stage.driven("a", 0, &[team]).await?;
    let of_both = stage.driven("b", 0, &[team, gpu]).await?;
    stage.driven("elsewhere", 9, &[team, gpu]).await?;
    let agent = stage.agent(AGENT)?;
    for (asked, expected) in
        [(steps(&["a", "b"], &[team, gpu]), &of_both), (steps(&["a", "b"], &[team]), &of_team)]
    {
        let work = agent.lease_as(asked.clone()).await?;
        let work = work.with_context(|| format!("no step of {asked:?}"))?;
        ensure!(work.lease.run_id == *expected, "{asked:?}: {work:#?}");
    }
    // None is left of both: not that of another namespace, nor the one without labels.
    let nothing = v1::LeaseStepRequest {
        wait: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        ..steps(&["a", "b"], &[team])
    };
    let nothing = agent.lease_as(nothing).await?;
    ensure!(nothing.is_none(), "{nothing:#?}");
    // A named namespace in the older field counts beside the others.
    let both = v1::LeaseStepRequest { namespace: "elsewhere".to_owned(), ..steps(&["b"], &[gpu]) };
    let work = agent.lease_as(both).await?.context("a step")?;
    ensure!(work.lease.run_id != of_both, "{work:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_namespace_that_is_not_permitted_and_labels_beyond_their_bounds_are_refused() -> Result<()>
{
    let stage = Stage::start().await?;
    let (agent, foreign) = (stage.agent(AGENT)?, stage.agent(FOREIGN)?);
    let (code, said) = refusal(foreign.lease_as(steps(&["elsewhere", "default"], &[])).await)?;
    ensure!(code == "namespace_not_found" && said.contains("\"default\""), "{code}: {said}");
    let single = v1::LeaseStepRequest { namespace: "default".to_owned(), ..steps(&[], &[]) };
    let (code, said) = refusal(foreign.lease_as(single).await)?;
    ensure!(code == "namespace_not_found" && said.contains("\"default\""), "{code}: {said}");
    let asked = v1::LeasePlanRequest {
        planner_id: "one".to_owned(),
        namespaces: names(&["elsewhere", "default"]),
        ..v1::LeasePlanRequest::default()
    };
    let (code, said) = refusal(stage.planner(FOREIGN)?.lease_plan(asked).await)?;
    ensure!(code == "namespace_not_found" && said.contains("\"default\""), "{code}: {said}");

    let many: Vec<String> = (0..=100).map(|number| format!("n{number}")).collect();
    let long = "x".repeat(2001);
    let labelled = |of: BTreeMap<String, String>| v1::LeaseStepRequest {
        labels: of,
        ..v1::LeaseStepRequest::default()
    };
    for (asked, expected) in [
        (v1::LeaseStepRequest { namespaces: many, ..Default::default() }, "too_large"),
        (steps(&["a", ""], &[]), "field_missing"),
        (steps(&[&long], &[]), "too_large"),
        (labelled((0..=64).map(|n| (n.to_string(), String::new())).collect()), "too_large"),
        (labelled(labels(&[("a", &long)])), "too_large"),
        (labelled(labels(&[("a", "\0")])), "type_mismatch"),
    ] {
        let (code, said) = refusal(agent.lease_as(asked).await)?;
        ensure!(code == expected, "{code}: {said}");
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_planning_agent_takes_runs_of_the_namespaces_and_labels_that_it_names() -> Result<()> {
    let stage = Stage::start().await?;
    let planned = async |namespace: &str, of: &[(&str, &str)]| -> Result<String> {
        let request = v1::CreateRunRequest {
            namespace: namespace.to_owned(),
            goal: "a plan is to come".to_owned(),
            labels: labels(of),
            ..v1::CreateRunRequest::default()
        };
        Ok(stage.deployment.create_run(request).await?.id)
    };
    let team = ("team", "a");
    planned("a", &[]).await?;
    planned("c", &[team]).await?;
    let wanted = planned("b", &[team, ("gpu", "yes")]).await?;
    let asked = |seconds| v1::LeasePlanRequest {
        planner_id: "one".to_owned(),
        namespaces: names(&["a", "b"]),
        labels: labels(&[team]),
        wait: Some(prost_types::Duration { seconds, nanos: 0 }),
        ..v1::LeasePlanRequest::default()
    };
    let mut planner = stage.planner(AGENT)?;
    let leased = planner.lease_plan(asked(30)).await?.into_inner().lease.context("a plan")?;
    ensure!(leased.run_id == wanted, "{leased:#?}");
    let none = planner.lease_plan(asked(1)).await?.into_inner();
    ensure!(none.lease.is_none(), "{none:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_worker_that_names_labels_takes_only_calls_of_runs_with_all_of_them() -> Result<()> {
    let stage = Stage::start().await?;
    admit(&stage.deployment, &[entry(TOOL, WORKER)]).await?;
    let executor = stage.deployment.executors.first().context("an executor")?;
    let labelled =
        v1::Announce { labels: labels(&[("team", "a")]), ..announce("of-team-a", &[tool(TOOL)]) };
    let mut of_team = Worker::connect(executor, WORKER, labelled).await?;
    let calling = async |of: &[(&str, &str)]| -> Result<String> {
        let call = json!({"name": TOOL, "arguments": {"text": "a word"}});
        let request = v1::CreateRunRequest {
            labels: labels(of),
            ..request(&plan(&[step("s", &[], &[call.clone(), call])]), "")
        };
        Ok(stage.deployment.create_run(request).await?.id)
    };
    let other = calling(&[("team", "b")]).await?;
    let wanted = calling(&[("team", "a"), ("zone", "x")]).await?;
    for _ in 0..2 {
        let call = of_team.call().await?;
        ensure!(call.run_id == wanted, "{call:#?}");
        of_team.store(result(&call, "ein Wort")).await?;
    }
    stage.deployment.wait_for_end(&wanted).await?;
    // The other run waits for a worker that takes every call.
    let mut any = Worker::connect(executor, WORKER, announce("of-all", &[tool(TOOL)])).await?;
    for _ in 0..2 {
        let call = any.call().await?;
        ensure!(call.run_id == other, "{call:#?}");
        any.store(result(&call, "ein Wort")).await?;
    }
    stage.deployment.wait_for_end(&other).await?;
    let many = v1::Announce {
        labels: (0..=64).map(|number| (number.to_string(), String::new())).collect(),
        ..announce("too-many", &[tool(TOOL)])
    };
    let refused = Worker::connect(executor, WORKER, many).await.err().context("it was accepted")?;
    let (code, said) = refusal(Err::<(), _>(refused))?;
    ensure!(code == "too_large", "{code}: {said}");
    stage.deployment.finish().await
}
