//! Asks a forge what it shows of a task: gathers the facts that a question needs, and decides by them.

use crate::error::{ForgeError, ForgeErrorCode};
use crate::forge::Forge;
use crate::repo::RepoName;
use crate::types::{PullState, Review};
use surety_common::domain::toolchain::{
    ChecksState, Finding, NotAsked, ProbeFacts, ProbeQuestion, ProbeReason, ReviewFact, Wanted,
    decide, own_part_holds, refers_to, reviewed_commit,
};

/// What comes of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// The forge shows what the task asks for.
    Passed,
    /// Something is missing.
    Failed {
        /// What.
        reason: ProbeReason,
    },
    /// The forge is not asked.
    NotAsked(NotAsked),
    /// The forge could not be asked: the verification erred, and the task is not at fault.
    Unreachable(ForgeError),
}

impl ProbeAnswer {
    /// The stable word of the answer: `passed`, a reason, or why the forge was not asked.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed { reason } => reason.as_str(),
            Self::NotAsked(reason) => reason.as_str(),
            Self::Unreachable(error) => error.code.as_str(),
        }
    }
}

/// Asks a forge.
pub async fn ask(forge: &dyn Forge, question: &ProbeQuestion) -> ProbeAnswer {
    match gather(forge, question).await {
        // Without the commit of the event a push cannot be told from what was there.
        Ok(ProbeFacts { event_commit: None, is_merged: false, .. })
            if matches!(question.wanted, Wanted::Push { .. }) =>
        {
            ProbeAnswer::NotAsked(NotAsked::SubjectUnknown)
        }
        Ok(facts) => match decide(question, &facts) {
            Finding::Passed => ProbeAnswer::Passed,
            Finding::Failed(reason) => ProbeAnswer::Failed { reason },
        },
        Err(error) if error.code == ForgeErrorCode::NotServed => {
            ProbeAnswer::NotAsked(NotAsked::NotServed)
        }
        Err(error) => ProbeAnswer::Unreachable(error),
    }
}

/// Whether the assignee's own part of a task holds and only CI or a reviewer is missing; none where the forge does not say.
///
/// # Errors
/// Those of [`Forge`].
pub async fn own_part(
    forge: &dyn Forge,
    question: &ProbeQuestion,
) -> Result<Option<bool>, ForgeError> {
    let facts = match &question.wanted {
        Wanted::Merge { number } => {
            let repo = &RepoName::new(&question.repo)?;
            let pull = forge.pull(repo, *number).await?;
            let checks = match pull.state {
                PullState::Open => Some(forge.checks(repo, &pull.head_commit).await?.state),
                PullState::Merged | PullState::Closed => None,
            };
            let (is_merged, is_open) =
                (pull.state == PullState::Merged, pull.state == PullState::Open);
            ProbeFacts { is_merged, is_open, checks, ..ProbeFacts::default() }
        }
        Wanted::Push { .. } | Wanted::PullRequest { .. } => gather(forge, question).await?,
        // No answer of the forge stops the clock.
        Wanted::Review { .. }
        | Wanted::Response { .. }
        | Wanted::Deployment { .. }
        | Wanted::Reply { .. } => ProbeFacts::default(),
    };
    Ok(own_part_holds(question, &facts))
}

/// The facts that a question needs.
///
/// # Errors
/// Those of [`Forge`].
pub async fn gather(forge: &dyn Forge, question: &ProbeQuestion) -> Result<ProbeFacts, ForgeError> {
    let repo = &RepoName::new(&question.repo)?;
    let mut facts = ProbeFacts::default();
    match &question.wanted {
        Wanted::Merge { number } => {
            facts.is_merged = forge.pull(repo, *number).await?.state == PullState::Merged;
        }
        Wanted::Push { number, branch, commit, reviewer } => {
            facts.event_commit.clone_from(commit);
            head(forge, repo, (*number, branch), &mut facts).await?;
            if let (Some(reviewer), Some(number)) = (reviewer, number) {
                let reviews = reviews(forge, repo, *number).await?;
                let reviewed = || reviewed_commit(&reviews, reviewer, question.since);
                facts.event_commit = facts.event_commit.or_else(|| reviewed().map(str::to_owned));
                facts.reviews = reviews;
            }
            if let Some(head) = &facts.head {
                facts.checks = Some(forge.checks(repo, head).await?.state);
            }
        }
        Wanted::Review { number } => facts.reviews = reviews(forge, repo, *number).await?,
        Wanted::Response { number, commit } => {
            facts.event_commit.clone_from(commit);
            replies(forge, repo, (question, *number), &mut facts).await?;
            facts.reviews = reviews(forge, repo, *number).await?;
            head(forge, repo, (Some(*number), ""), &mut facts).await?;
        }
        Wanted::PullRequest { issue } => {
            linked(forge, repo, (question, *issue), &mut facts).await?
        }
        Wanted::Deployment { environment } => {
            let deployments = forge.deployments(repo, environment).await?;
            let succeeded = deployments.iter().filter(|it| it.state == "success");
            facts.deployed = succeeded.map(|it| it.state_at).collect();
        }
        Wanted::Reply { number } => {
            replies(forge, repo, (question, *number), &mut facts).await?;
            facts.reviews = match reviews(forge, repo, *number).await {
                // The number may be that of an issue, which has none.
                Err(error) if error.code == ForgeErrorCode::NotFound => Vec::new(),
                found => found?,
            };
        }
    }
    Ok(facts)
}

/// The newest commit of a pull request, or of a branch.
async fn head(
    forge: &dyn Forge,
    repo: &RepoName,
    (number, branch): (Option<u64>, &str),
    facts: &mut ProbeFacts,
) -> Result<(), ForgeError> {
    facts.head = Some(match number {
        Some(number) => {
            let pull = forge.pull(repo, number).await?;
            facts.is_merged = pull.state == PullState::Merged;
            pull.head_commit
        }
        None => forge.branch_head(repo, branch).await?.commit,
    });
    Ok(())
}

async fn reviews(
    forge: &dyn Forge,
    repo: &RepoName,
    number: u64,
) -> Result<Vec<ReviewFact>, ForgeError> {
    let reviews = forge.reviews(repo, number).await?;
    Ok(reviews.iter().filter_map(Review::fact).collect())
}

/// The times of the assignee's comments, also of those on lines of a pull request.
async fn replies(
    forge: &dyn Forge,
    repo: &RepoName,
    (question, number): (&ProbeQuestion, u64),
    facts: &mut ProbeFacts,
) -> Result<(), ForgeError> {
    let comments = forge.comments(repo, number, Some(question.since)).await?;
    let on_lines = match forge.review_comments(repo, number).await {
        Ok(on_lines) => on_lines,
        // The number of a mention may be that of an issue, which has none.
        Err(error) if error.code == ForgeErrorCode::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let all = comments.into_iter().chain(on_lines.into_iter().map(|it| it.comment));
    let own = all.filter(|it| question.is_of(&it.author));
    facts.replies = own.map(|it| it.created_at).collect();
    Ok(())
}

/// The pull requests that changed since the event, and the checks of the one that refers to the issue.
async fn linked(
    forge: &dyn Forge,
    repo: &RepoName,
    (question, issue): (&ProbeQuestion, u64),
    facts: &mut ProbeFacts,
) -> Result<(), ForgeError> {
    let pulls = forge.pulls_since(repo, question.since).await?;
    facts.pulls = pulls.iter().map(|pull| pull.fact()).collect();
    let mut refers = pulls.iter().filter(|pull| {
        let fact = pull.fact();
        fact.is_alive && refers_to(&fact, issue)
    });
    if let Some(pull) = refers.next() {
        facts.is_merged = pull.state == PullState::Merged;
        facts.checks = match pull.state {
            PullState::Merged => Some(ChecksState::Passing),
            PullState::Open | PullState::Closed => {
                Some(forge.checks(repo, &pull.head_commit).await?.state)
            }
        };
    }
    Ok(())
}
