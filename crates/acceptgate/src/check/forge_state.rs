//! `action_report` with the target `forge`: the gate asks the forge what a task led to.
//!
//! A forge that does not answer is no fault of the assignee, nor is an account that is not registered: the reasons
//! `forge_api_unreachable`, `verify_error` and `account_unknown` make the failure one of the infrastructure.

use super::Answer;
use sqlx::PgPool;
use std::collections::BTreeMap;
use std::time::Duration;
use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::toolchain::{FORGE_TARGET, Forge, NotAsked, TaskFailure};
use surety_common::domain::verdict::Caution;
use surety_common::store::{self, JudgedTask, StoreError, StoredTask};
use surety_forge::{Forges, ProbeAnswer, Probed};
use tokio::time::timeout;

/// The time limit of all questions about one task, with the client's own attempts.
const LIMIT: Duration = Duration::from_secs(45);

/// The caution about a task that no forge was asked about, though one is configured.
const FORGE_NOT_ASKED: &str = "forge_not_asked";

/// What the forge shows of a task.
#[derive(Debug, Default)]
pub struct ForgeState {
    /// The results of the checks that the forge decides, by their index in the list.
    pub answers: BTreeMap<usize, Answer>,
    /// What the forge could not be asked.
    pub cautions: Vec<Caution>,
}

/// Whether the forge decides a check, and not the history of the task.
#[must_use]
pub fn is_asked(check: &AcceptCheck) -> bool {
    check.kind == CheckKind::ActionReport && check.target == FORGE_TARGET
}

/// What the forge shows of a task, for the checks that it decides. Nothing of a run that is no task. A policy may refuse
/// on what the forge could not be asked.
///
/// # Errors
/// [`StoreError`]; then there is no verdict, and none is refused for it.
pub async fn ask(
    pool: &PgPool,
    forges: &Forges,
    task: Option<&JudgedTask>,
    (checks, refuse_on): (&[AcceptCheck], &[String]),
) -> Result<ForgeState, StoreError> {
    let asked = || checks.iter().enumerate().filter(|(_, check)| is_asked(check));
    let Some(JudgedTask { task, .. }) = task.filter(|_| asked().next().is_some()) else {
        return Ok(ForgeState::default());
    };
    let of_file = Forge::from_text(&task.forge)
        .and_then(|kind| forges.account_of_agent(kind, &task.subject.repo, &task.assignee));
    let accounts = store::accounts_of_task(pool, task, of_file).await?;
    let asking = forges.probe(&task.payload, &accounts, task.happened_at);
    let Ok(probed) = timeout(LIMIT, asking).await else {
        let answer = Err(TaskFailure::ForgeApiUnreachable.as_str());
        let answers = asked().map(|(index, _)| (index, answer)).collect();
        return Ok(ForgeState { answers, cautions: Vec::new() });
    };
    let missing = not_asked(&probed);
    let refuses = missing.is_some() && refuse_on.iter().any(|code| code == FORGE_NOT_ASKED);
    let answer = if refuses { Err(FORGE_NOT_ASKED) } else { answer(&probed, task) };
    let caution = |(_, check): (usize, &AcceptCheck)| {
        let detail = missing?.to_owned();
        Some(Caution { code: FORGE_NOT_ASKED.to_owned(), check: check.name().to_owned(), detail })
    };
    Ok(ForgeState {
        answers: asked().map(|(index, _)| (index, answer)).collect(),
        cautions: asked().filter_map(caution).collect(),
    })
}

/// Why a forge that is configured could not be asked about what a task asks for.
const fn not_asked(probed: &Probed) -> Option<&'static str> {
    match &probed.answer {
        ProbeAnswer::NotAsked(NotAsked::SubjectUnknown) => Some(
            "the event names no pull request, issue or branch that the forge could be asked about",
        ),
        ProbeAnswer::NotAsked(NotAsked::NotServed) => {
            Some("the API of the forge does not show what the task asks for")
        }
        ProbeAnswer::NotAsked(
            NotAsked::NothingToShow | NotAsked::AccountUnknown | NotAsked::NotConfigured,
        )
        | ProbeAnswer::Passed
        | ProbeAnswer::Failed { .. }
        | ProbeAnswer::Unreachable(_) => None,
    }
}

fn answer(probed: &Probed, task: &StoredTask) -> Answer {
    let run_id = task.run_id;
    match &probed.answer {
        ProbeAnswer::Passed => Ok(()),
        ProbeAnswer::Failed { reason } => Err(reason.as_str()),
        // The planner's configuration asked for the check, and the gate's own has no forge for it.
        ProbeAnswer::NotAsked(NotAsked::NotConfigured) => Err(TaskFailure::VerifyError.as_str()),
        ProbeAnswer::NotAsked(NotAsked::AccountUnknown) => {
            tracing::warn!(
                %run_id, agent = task.assignee, forge = task.forge,
                "acceptgate: the forge could not be asked about a task, because no account of its assignee is known; \
                 register it with `surety agents put AGENT --account FORGE:LOGIN`"
            );
            Err(TaskFailure::AccountUnknown.as_str())
        }
        // There is nothing that the forge could show, or a caution says what is missing.
        ProbeAnswer::NotAsked(
            NotAsked::NothingToShow | NotAsked::SubjectUnknown | NotAsked::NotServed,
        ) => Ok(()),
        ProbeAnswer::Unreachable(error) => {
            tracing::warn!(%run_id, %error, "acceptgate: the forge could not be asked about a task");
            let is_outage = error.code.is_outage();
            let failure =
                if is_outage { TaskFailure::ForgeApiUnreachable } else { TaskFailure::VerifyError };
            Err(failure.as_str())
        }
    }
}
