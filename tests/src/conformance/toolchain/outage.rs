//! Tasks that fail while their forge cannot be reached: each is made, fails by calls, and what is stored is compared.
//!
//! ```text
//!   event --> task --earlier failures--> task again --outage, failure--> comment or issue given up --> infrastructure
//! ```

use super::live::{Live, ROBOT};
use super::{Failed, compare_class, on_failure as by_rule, said, same};
use crate::agent::{AGENT, OTHER, PERSON, call};
use crate::forge::{Failure, State};
use crate::harness::PATIENCE;
use crate::toolchain::{LOGIN, OnForge, REPO};
use anyhow::{Context, Error, Result, ensure};
use serde_json::{Value, json};
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::{
    ActionType, FailureClass, MAX_BUSINESS_FAILURES, TaskFailure, TaskOutcome,
};
use surety_common::store::EscalationAction;
use surety_common::wire::v1;
use uuid::Uuid;

/// The author of pull requests that others review.
const AUTHOR: &str = "alice";
/// The calls with which the service writes on a forge. The gate makes none of them about a requested change.
const WRITING: [&str; 5] = ["current_user", "comments", "add_comment", "issues_of", "create_issue"];
/// Every call.
const ALL: [&str; 1] = ["*"];
/// More calls than a row makes.
const ALWAYS: (usize, usize) = (0, 100_000);
/// How often what is stored is looked at.
const POLL: Duration = Duration::from_millis(50);

/// As if the pauses between the attempts to write about a task had passed, and all attempts between the first, which failed,
/// and the last.
const NO_PAUSE: &str =
    "update escalation set attempts = greatest(attempts, 4), next_attempt_at = noted_at
    where run_id = $1 and state = 'due' and error <> ''";
/// As if both reminders of a task were in vain.
const REMINDED: &str = "update task set reminders = 2, remind_at = created_at where run_id = $1";

/// How an assignee fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It says that it is done, without a report.
    Silence,
    /// Another agent writes its report.
    OthersReport,
    /// Its report is not accepted.
    Report,
    /// It lets all time pass.
    Clock,
    /// It calls a tool that does not exist, again and again.
    WrongCalls,
    /// The model that drives it does not answer.
    Model,
}

/// The way to a failure; none where no call leads to it.
const fn way_to(failure: TaskFailure) -> Option<Way> {
    match failure {
        TaskFailure::NoAction => Some(Way::Silence),
        TaskFailure::ReportAuthorMismatch => Some(Way::OthersReport),
        TaskFailure::StepsIgnored
        | TaskFailure::ForgeApiUnreachable
        | TaskFailure::VerifyError
        | TaskFailure::AccountUnknown => Some(Way::Report),
        TaskFailure::DeadlineExceeded => Some(Way::Clock),
        TaskFailure::MaxRetries => Some(Way::WrongCalls),
        TaskFailure::SpawnerCrash => Some(Way::Model),
        // The API refuses a blank report. A report from before the run of its task needs a planner that ends between the row
        // of the task and its run. The services of the rows clone nothing.
        TaskFailure::ReportEmpty
        | TaskFailure::ReportBeforeStart
        | TaskFailure::WorkspaceUnavailable
        | TaskFailure::BranchGone => None,
    }
}

/// A task that fails during an outage.
#[derive(Debug, Clone, Copy)]
struct Outage {
    failure: TaskFailure,
    way: Way,
    consecutive: u32,
    is_linked: bool,
}

/// What became of the task.
struct Ended {
    task: v1::Task,
    /// The class that was acted on.
    class: FailureClass,
}

/// Compares what follows from a failure while the forge is away. A failure that no call leads to is judged by the rule
/// alone.
pub(super) async fn on_failure(live: &Live, given: &Value, expect: &Value) -> Result<(), String> {
    let Some(outage) = Outage::of(Failed::of(given)?) else { return by_rule(given, expect) };
    let ended = outage.play(live).await.map_err(|error| format!("{error:#}"))?;
    compare_class(ended.class, true, expect)
}

/// Compares a task whose verification errs: the forge refuses the credential of the gate.
pub(super) async fn verify(live: &Live, expect: &Value) -> Result<(), String> {
    said(verification_errs(live, expect).await)
}

async fn verification_errs(live: &Live, expect: &Value) -> Result<()> {
    let failure = TaskFailure::VerifyError;
    let (way, consecutive, is_linked) = (Way::Report, 1, true);
    let Ended { task, .. } = Outage { failure, way, consecutive, is_linked }.play(live).await?;
    let run = live.services().await?.stage.deployment.run(&task.run_id).await?;
    let verdict = run.verdict.context("no verdict")?;
    let errs = |result: &v1::CheckResult| !result.passed && result.reason == failure.as_str();
    ensure!(verdict.results.iter().any(errs), "{verdict:#?}");
    let passed = verdict.accepted || task.outcome == TaskOutcome::Accepted.as_str();
    let held = same("passed", &expect["passed"], passed)
        .and_then(|()| same("reason", &expect["reason"], task.failure.as_str()))
        .and_then(|()| same("class", &expect["class"], task.failure_class.as_str()));
    held.map_err(Error::msg)
}

impl Outage {
    /// That of a row; none where the services cannot come to it.
    fn of(Failed { failure, consecutive, is_linked }: Failed) -> Option<Self> {
        let way = way_to(failure)?;
        // The last business failure in a row hands the chain to the coordinator, and so does one about no pull request and
        // no issue. A model that is away ends its task before another agent's report could.
        let most = if is_linked && way != Way::Model { MAX_BUSINESS_FAILURES } else { 1 };
        // The forge is asked about a branch without an account.
        let asks = is_linked || failure != TaskFailure::AccountUnknown;
        let is_reached = asks && (1..=most).contains(&consecutive);
        is_reached.then_some(Self { failure, way, consecutive, is_linked })
    }

    /// The calls that fail, and their status.
    const fn calls(&self) -> (&'static [&'static str], u16) {
        match self.failure {
            // The gate has to see that a step was not carried out.
            TaskFailure::StepsIgnored => (&WRITING, 503),
            TaskFailure::VerifyError => (&ALL, 401),
            TaskFailure::NoAction
            | TaskFailure::ReportEmpty
            | TaskFailure::ReportAuthorMismatch
            | TaskFailure::ReportBeforeStart
            | TaskFailure::SpawnerCrash
            | TaskFailure::DeadlineExceeded
            | TaskFailure::MaxRetries
            | TaskFailure::ForgeApiUnreachable
            | TaskFailure::AccountUnknown
            | TaskFailure::WorkspaceUnavailable
            | TaskFailure::BranchGone => (&ALL, 503),
        }
    }

    async fn play(&self, live: &Live) -> Result<Ended> {
        let on = live.services().await?;
        let pool = on.stage.deployment.database.pool().await?;
        let mut run_id = self.event(on).await?;
        for _ in 1..self.consecutive {
            run_id = fails_before(on, &pool, &run_id).await?;
        }
        let (routes, status) = self.calls();
        for route in routes {
            on.double.fail(route, Failure::Status(status), ALWAYS);
        }
        let ended = self.fail(on, &pool, &run_id).await;
        on.double.heal();
        pool.close().await;
        ended.with_context(|| format!("{self:?}"))
    }

    /// The run of the task of a new event.
    async fn event(&self, on: &OnForge) -> Result<String> {
        let branch = format!("rows/{}", Uuid::now_v7().simple());
        let is_review = self.failure == TaskFailure::AccountUnknown;
        let author = match self.way {
            Way::Model => ROBOT,
            Way::Report if is_review => AUTHOR,
            Way::Silence | Way::OthersReport | Way::Report | Way::Clock | Way::WrongCalls => LOGIN,
        };
        if !self.is_linked {
            return on.submitted("status", &failed_build(on, author, &branch)?).await;
        }
        let number = on.opened(author, &branch)?;
        if is_review {
            let mut opened = on.about("opened", number)?;
            opened["sender"]["login"] = json!(author);
            return on.submitted("pull_request", &opened).await;
        }
        let review = (number, "REQUEST_CHANGES", "Add a test.");
        on.double.change(|state| state.review(REPO, AUTHOR, review)).context("a review")?;
        on.submitted("pull_request_rejected", &on.about("reviewed", number)?).await
    }

    /// Has the task fail, and reads what follows from it.
    async fn fail(&self, on: &OnForge, pool: &PgPool, run_id: &str) -> Result<Ended> {
        match self.way {
            Way::Silence => on.stage.done_without_a_report(run_id).await.map(drop)?,
            Way::OthersReport => report(on, run_id, OTHER).await?,
            Way::Report => report(on, run_id, "").await?,
            Way::Clock => all_time_passes(on, pool, run_id).await?,
            Way::WrongCalls => calls_wrongly(on, run_id).await?,
            Way::Model => {}
        }
        let task = on.stage.ended(run_id).await?;
        ensure!(task.failure == self.failure.as_str(), "{task:#?}");
        let written = settled(pool, run_id).await?;
        ensure!(written.iter().all(|(_, state)| state == "failed"), "{written:?}");
        let is_of = |action: EscalationAction| written.iter().any(|(it, _)| it == action.as_str());
        let class = if is_of(EscalationAction::Comment) {
            FailureClass::Business
        } else if is_of(EscalationAction::Issue) {
            FailureClass::System
        } else {
            FailureClass::Infrastructure
        };
        let stored = FailureClass::from_text(&task.failure_class).context("no class")?;
        ensure!(stored.of_subject(task.number) == class, "acted on as {class}: {task:#?}");
        // Beside the task that stands behind a text: the same again, or the coordinator's.
        let caused = on.stage.caused_by(run_id, 1 + written.len()).await?;
        let infrastructure = ActionType::InfrastructureFailure.as_str();
        let told = caused.iter().filter(|task| task.action_type == infrastructure);
        let told: Vec<_> = told.collect();
        let is_told = matches!(told.as_slice(), [task] if task.assignee == OTHER);
        ensure!(is_told, "not one task for the infrastructure: {caused:#?}");
        Ok(Ended { task, class })
    }
}

/// A failed build of a branch that has no pull request.
fn failed_build(on: &OnForge, author: &str, branch: &str) -> Result<Value> {
    let commit = on.git.commit(branch, &[("src/list.rs", "fn list() { slow() }\n")], branch)?;
    let at = State::now().to_rfc3339();
    Ok(json!({
        "sha": commit, "state": "failure", "context": "tests", "description": "2 of 9 failed",
        "branches": [{"name": branch}],
        "commit": {"id": commit, "author": {"username": author}, "timestamp": at},
        "created_at": at, "updated_at": at,
        "repository": {"full_name": REPO}, "sender": {"login": author}
    }))
}

/// An operator submits a report of an author; empty for the assignee.
async fn report(on: &OnForge, run_id: &str, author: &str) -> Result<()> {
    let request = v1::SubmitActionReportRequest {
        run_id: run_id.to_owned(),
        report: "Changed src/list.rs and pushed it.".to_owned(),
        author: author.to_owned(),
        ..v1::SubmitActionReportRequest::default()
    };
    let answer = on.stage.report_as(PERSON, request).await?;
    ensure!(!answer.accepted, "{answer:#?}");
    Ok(())
}

/// A business failure while the forge answers. Answers the run of the task that follows, which is the same again.
async fn fails_before(on: &OnForge, pool: &PgPool, run_id: &str) -> Result<String> {
    report(on, run_id, OTHER).await?;
    let failed = on.stage.ended(run_id).await?;
    ensure!(failed.failure_class == FailureClass::Business.as_str(), "{failed:#?}");
    let written = settled(pool, run_id).await?;
    let is_commented = matches!(written.as_slice(), [(_, state)] if state == "done");
    ensure!(is_commented, "{written:?}");
    let caused = on.stage.caused_by(run_id, 1).await?;
    let [again] = caused.as_slice() else { anyhow::bail!("{caused:#?}") };
    ensure!(again.action_type == failed.action_type, "{again:#?}");
    Ok(again.run_id.clone())
}

async fn all_time_passes(on: &OnForge, pool: &PgPool, run_id: &str) -> Result<()> {
    on.stage.wait_for(run_id, "at work", |task| task.remind_at.is_some()).await?;
    sqlx::query(REMINDED).bind(run_id.parse::<Uuid>()?).execute(pool).await?;
    Ok(())
}

async fn calls_wrongly(on: &OnForge, run_id: &str) -> Result<()> {
    let agent = on.stage.agent(AGENT)?;
    let mut work = agent.work(run_id).await?;
    let unknown = call("fly", json!({})).to_string();
    while let Some(next) = agent.submit(&work, &unknown).await?.next {
        work.context = next;
    }
    Ok(())
}

/// What was to be written about a task, and its state, once none of it is due.
async fn settled(pool: &PgPool, run_id: &str) -> Result<Vec<(String, String)>> {
    let run_id: Uuid = run_id.parse()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        sqlx::query(NO_PAUSE).bind(run_id).execute(pool).await?;
        let noted = "select action, state from escalation where run_id = $1 order by action";
        let noted: Vec<(String, String)> =
            sqlx::query_as(noted).bind(run_id).fetch_all(pool).await?;
        if noted.iter().all(|(_, state)| state != "due") {
            return Ok(noted);
        }
        ensure!(Instant::now() < deadline, "not written and not given up in time: {noted:?}");
        tokio::time::sleep(POLL).await;
    }
}
