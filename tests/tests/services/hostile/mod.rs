//! Hostile participants: each call answers with its code, and the run reaches its verdict all the same.
//!
//! ```text
//!   a run, leased by an honest agent --> one hostile act --> the expected code
//!                                                     `--> another agent ends the run: DONE, audited
//! ```

mod calls;
mod floods;
mod reports;
mod submissions;

use anyhow::{Context, Result, ensure};
use futures::future::BoxFuture;
use serde_json::json;
use surety_common::domain::fault::Reason;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::agent::{AGENT, Agent, OTHER, PERSON, Work, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request};
use tempfile::NamedTempFile;
use tonic::Status;

/// An agent counts as lost after a second without a sign of life.
const LEASE: (&str, &str) = ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "1000");
/// The least number of cases.
const LEAST: usize = 40;

/// What a case acts on.
struct Scene {
    deployment: Deployment,
    _tokens: NamedTempFile,
}

/// A run whose only step an honest agent has leased.
struct Victim {
    run_id: String,
    agent: Agent,
    work: Work,
}

/// One hostile act: its name, the code that it is answered with, and the act. An empty code stands for an act
/// that judges its answer itself.
struct Case {
    name: &'static str,
    code: &'static str,
    act: for<'a> fn(&'a Scene, &'a Victim) -> BoxFuture<'a, Result<(), Status>>,
}

impl Scene {
    async fn start() -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let environment = [("SURETY_TOKEN_FILE", path.as_str()), LEASE];
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        deployment.add_executor(&[]).await?;
        Ok(Self { deployment, _tokens: tokens })
    }

    fn agent(&self, identity: &str) -> Result<Agent> {
        let executor = self.deployment.executors.first().context("an executor")?;
        Agent::new(executor, identity, "agent-1")
    }

    /// An agent of an identity; a failure of the test itself becomes a status.
    fn of(&self, identity: &str) -> Result<Agent, Status> {
        self.agent(identity).map_err(broken)
    }

    fn channel(&self, url: &str, identity: &str) -> Result<ServiceChannel, Status> {
        let token = Token::new(&secret(identity)).map_err(broken)?;
        channel(url, Some(&token)).map_err(broken)
    }

    /// The executor's calls as an identity.
    fn executor(&self, identity: &str) -> Result<ExecutorServiceClient<ServiceChannel>, Status> {
        let executor = self.deployment.executors.first();
        let url = executor.ok_or_else(|| Status::internal("no executor"))?.url();
        Ok(ExecutorServiceClient::new(self.channel(&url, identity)?))
    }

    /// The planner's calls about runs as an identity.
    fn runs(&self, identity: &str) -> Result<RunServiceClient<ServiceChannel>, Status> {
        let url = self.deployment.planner.url();
        Ok(RunServiceClient::new(self.channel(&url, identity)?))
    }

    /// The planner's calls about plans as an identity.
    fn plans(&self, identity: &str) -> Result<PlannerServiceClient<ServiceChannel>, Status> {
        let url = self.deployment.planner.url();
        Ok(PlannerServiceClient::new(self.channel(&url, identity)?))
    }

    async fn victim(&self) -> Result<Victim> {
        let plan = plan(&[json!({"id": "s", "description": "write out.txt"})]);
        let driver = v1::Driver::Remote.into();
        let request = v1::CreateRunRequest { driver, ..request(&plan, "") };
        let run_id = self.deployment.create_run(request).await?.id;
        let agent = self.agent(AGENT)?;
        let work = agent.work(&run_id).await?;
        Ok(Victim { run_id, agent, work })
    }

    /// Another agent ends the run, unless it has ended.
    async fn conclude(&self, victim: &Victim) -> Result<()> {
        // It may have been lost already.
        drop(victim.agent.release(&victim.work).await);
        let mut run = self.deployment.run(&victim.run_id).await?;
        if run.terminal.is_none() && run.state() == v1::RunState::Blocked {
            let question = self.deployment.question(&victim.run_id).await?;
            self.deployment.answer(&question.wait_id, "go on").await?;
            run = self.deployment.run(&victim.run_id).await?;
        }
        if run.terminal.is_none() {
            let honest = self.agent(OTHER)?;
            let work = honest.work(&victim.run_id).await?;
            let write = call("write_file", json!({"path": "out.txt", "content": "done\n"}));
            honest.take_turns(work, &[write, next_plan()]).await?;
        }
        let run = self.deployment.wait_for_end(&victim.run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
        Ok(())
    }
}

fn broken(error: impl std::fmt::Display) -> Status {
    Status::internal(format!("the test failed: {error}"))
}

/// Fails the case unless something holds.
fn held(holds: bool, what: impl std::fmt::Debug) -> Result<(), Status> {
    if holds { Ok(()) } else { Err(Status::internal(format!("{what:?}"))) }
}

fn code(status: &Status) -> String {
    match from_status(status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    }
}

/// Plays cases one after the other over one deployment.
async fn play(cases: &[Case]) -> Result<()> {
    let scene = Scene::start().await?;
    for Case { name, code: expected, act } in cases {
        let victim = scene.victim().await.context(*name)?;
        let found = match act(&scene, &victim).await {
            Ok(()) => String::new(),
            Err(status) if expected.is_empty() => anyhow::bail!("{name}: {}", status.message()),
            Err(status) => code(&status),
        };
        ensure!(found == *expected, "{name}: {found:?} instead of {expected:?}");
        scene.conclude(&victim).await.context(*name)?;
    }
    scene.deployment.finish().await
}

#[tokio::test]
async fn submissions_that_lie_about_their_lease_or_hold_too_much_are_refused_with_a_code()
-> Result<()> {
    play(&submissions::cases()).await
}

#[tokio::test]
async fn calls_that_are_not_a_participants_to_make_are_refused_with_a_code() -> Result<()> {
    play(&calls::cases()).await
}

#[tokio::test]
async fn reports_that_claim_what_only_the_runner_knows_are_refused_with_a_code() -> Result<()> {
    play(&reports::cases()).await
}

#[tokio::test]
async fn floods_of_connections_and_polls_leave_others_their_place() -> Result<()> {
    play(&floods::cases()).await
}

#[test]
fn there_are_forty_cases_with_names_of_their_own() {
    let all = [submissions::cases(), calls::cases(), reports::cases(), floods::cases()];
    let mut names: Vec<_> = all.iter().flatten().map(|case| case.name).collect();
    assert!(names.len() >= LEAST, "{}", names.len());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.iter().map(Vec::len).sum::<usize>());
}
