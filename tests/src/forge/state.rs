//! What the forge knows.

use super::git::Bare;
use chrono::{DateTime, SubsecRound, Utc};
use std::collections::{BTreeMap, BTreeSet};

/// Everything.
#[derive(Debug, Default)]
pub struct State {
    /// Accounts by their tokens.
    pub tokens: BTreeMap<String, String>,
    /// Repositories by `owner/name`.
    pub repos: BTreeMap<String, RepoState>,
    /// What an account may not do: login and route.
    pub denied: BTreeSet<(String, String)>,
    last_id: u64,
    happened: Vec<Happened>,
}

/// What happened, for deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// The repository.
    pub repo: String,
    /// The account that did it.
    pub by: String,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A pull request was opened.
    Opened(u64),
    /// Commits were pushed to a pull request.
    Pushed(u64),
    /// A pull request was merged.
    Merged(u64),
    /// A review was submitted, by its id.
    Reviewed(u64, u64),
    /// A comment was written, by its id.
    Commented(u64, u64),
    /// A comment on a line was written, by its id.
    OnLine(u64, u64),
    /// An issue was opened.
    IssueOpened(u64),
    /// An issue was assigned.
    Assigned(u64, String),
    /// A commit got a status, by its place.
    Status(usize),
    /// A deployment got a state, by its place.
    Deployed(usize),
}

/// One repository.
#[derive(Debug)]
pub struct RepoState {
    /// Its branches.
    pub git: Bare,
    /// Pull requests by number.
    pub pulls: BTreeMap<u64, PullState>,
    /// Issues by number.
    pub issues: BTreeMap<u64, IssueState>,
    /// Comments on both.
    pub comments: Vec<CommentState>,
    /// Reviews of all pull requests.
    pub reviews: Vec<ReviewState>,
    /// Statuses of commits, the newest last.
    pub statuses: Vec<StatusState>,
    /// Labels by number.
    pub labels: BTreeMap<u64, String>,
    /// Deployments.
    pub deployments: Vec<DeploymentState>,
    /// Jobs of builds.
    pub jobs: Vec<JobState>,
    last_number: u64,
}

/// A pull request.
#[derive(Debug, Clone)]
pub struct PullState {
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Who opened it.
    pub author: String,
    /// Its branch.
    pub head: String,
    /// The branch that it changes.
    pub base: String,
    /// Its newest commit when it was looked at last.
    pub commit: String,
    /// Whether it is open.
    pub is_open: bool,
    /// When and by whom it was merged.
    pub merged: Option<(DateTime<Utc>, String, String)>,
    /// The requested reviewers that have not reviewed since.
    pub reviewers: Vec<String>,
    /// The accounts that approved, or asked for changes.
    pub reviewed: Vec<String>,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

/// An issue.
#[derive(Debug, Clone)]
pub struct IssueState {
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Who opened it.
    pub author: String,
    /// Who must act.
    pub assignees: Vec<String>,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

/// A comment.
#[derive(Debug, Clone)]
pub struct CommentState {
    /// Its id.
    pub id: u64,
    /// The issue or the pull request.
    pub number: u64,
    /// Who wrote it.
    pub author: String,
    /// Its text.
    pub body: String,
    /// When it was written.
    pub at: DateTime<Utc>,
    /// The file and the line, for a comment of a review.
    pub line: Option<(String, u64)>,
    /// The review that it belongs to.
    pub review: Option<u64>,
    /// The comment that it replies to.
    pub reply_to: Option<u64>,
}

/// A review.
#[derive(Debug, Clone)]
pub struct ReviewState {
    /// Its id.
    pub id: u64,
    /// The pull request.
    pub number: u64,
    /// Who wrote it.
    pub author: String,
    /// `APPROVE`, `REQUEST_CHANGES` or `COMMENT`.
    pub event: String,
    /// Its text.
    pub body: String,
    /// The commit that it is about.
    pub commit: String,
    /// When it was submitted.
    pub at: DateTime<Utc>,
}

/// A status of a commit.
#[derive(Debug, Clone)]
pub struct StatusState {
    /// The commit.
    pub commit: String,
    /// Its name.
    pub context: String,
    /// `success`, `pending`, `failure` or `error`.
    pub state: String,
    /// What it says.
    pub description: String,
    /// When it was set.
    pub at: DateTime<Utc>,
    /// Whether GitHub shows it as a check run.
    pub is_check_run: bool,
}

/// A deployment.
#[derive(Debug, Clone)]
pub struct DeploymentState {
    /// Its id.
    pub id: u64,
    /// The commit.
    pub commit: String,
    /// The environment.
    pub environment: String,
    /// Its states, the newest last.
    pub states: Vec<(String, DateTime<Utc>)>,
    /// When it was made.
    pub at: DateTime<Utc>,
}

/// A job of a build with its log.
#[derive(Debug, Clone)]
pub struct JobState {
    /// The id of the run, and of the job.
    pub id: u64,
    /// The commit.
    pub commit: String,
    /// `success` or `failure`.
    pub conclusion: String,
    /// The log.
    pub log: String,
}

impl State {
    /// The time, in whole seconds as forges have it.
    #[must_use]
    pub fn now() -> DateTime<Utc> {
        Utc::now().trunc_subsecs(0)
    }

    /// The next id.
    pub fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A repository by its name.
    pub fn repo(&mut self, name: &str) -> Option<&mut RepoState> {
        self.repos.get_mut(name)
    }

    /// Tells the hooks of it.
    pub fn happen(&mut self, repo: &str, by: &str, what: What) {
        self.happened.push(Happened { repo: repo.to_owned(), by: by.to_owned(), what });
    }

    pub(super) fn take_happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// Opens a pull request, and returns its number; none where a branch is missing.
    pub fn open_pull(&mut self, repo: &str, pull: PullState) -> Option<u64> {
        let state = self.repos.get_mut(repo)?;
        let number = state.next_number();
        let author = pull.author.clone();
        state.git.refer(&format!("refs/pull/{number}/head"), &pull.commit).ok()?;
        state.pulls.insert(number, pull);
        self.happen(repo, &author, What::Opened(number));
        Some(number)
    }

    /// A pull request of an account from one branch to `main`, not opened yet.
    #[must_use]
    pub fn pull_of(author: &str, head: &str, commit: &str) -> PullState {
        PullState {
            title: format!("Work on {head}"),
            body: String::new(),
            author: author.to_owned(),
            head: head.to_owned(),
            base: "main".to_owned(),
            commit: commit.to_owned(),
            is_open: true,
            merged: None,
            reviewers: Vec::new(),
            reviewed: Vec::new(),
            created_at: Self::now(),
            updated_at: Self::now(),
        }
    }

    /// Opens an issue, and assigns it.
    pub fn open_issue(
        &mut self,
        repo: &str,
        by: &str,
        (title, body): (&str, &str),
        (assignees, labels): (Vec<String>, Vec<String>),
    ) -> Option<u64> {
        let state = self.repos.get_mut(repo)?;
        let number = state.next_number();
        let issue = IssueState {
            title: title.to_owned(),
            body: body.to_owned(),
            author: by.to_owned(),
            assignees: assignees.clone(),
            labels,
            created_at: Self::now(),
            updated_at: Self::now(),
        };
        state.issues.insert(number, issue);
        self.happen(repo, by, What::IssueOpened(number));
        for assignee in assignees {
            self.happen(repo, by, What::Assigned(number, assignee));
        }
        Some(number)
    }

    /// Submits a review, and returns its id.
    pub fn review(
        &mut self,
        repo: &str,
        by: &str,
        (number, event, body): (u64, &str, &str),
    ) -> Option<u64> {
        let id = self.next_id();
        let state = self.repos.get_mut(repo)?;
        let commit = state.head_of(number)?;
        if let Some(pull) = state.pulls.get_mut(&number) {
            pull.reviewers.retain(|reviewer| reviewer != by);
            if event != "COMMENT" && !pull.reviewed.iter().any(|it| it == by) {
                pull.reviewed.push(by.to_owned());
            }
        }
        let (author, body, event) = (by.to_owned(), body.to_owned(), event.to_owned());
        let at = Self::now();
        state.reviews.push(ReviewState { id, number, author, event, body, commit, at });
        state.touch(number);
        self.happen(repo, by, What::Reviewed(number, id));
        Some(id)
    }

    /// Submits a review with comments on lines, each a file, a line and a text, and returns its id.
    pub fn review_lines(
        &mut self,
        repo: &str,
        by: &str,
        (number, event, body): (u64, &str, &str),
        lines: &[(&str, u64, &str)],
    ) -> Option<u64> {
        let review = self.review(repo, by, (number, event, body))?;
        for (path, line, text) in lines {
            let id = self.next_id();
            self.repo(repo)?.comments.push(CommentState {
                id,
                number,
                author: by.to_owned(),
                body: (*text).to_owned(),
                at: Self::now(),
                line: Some(((*path).to_owned(), *line)),
                review: Some(review),
                reply_to: None,
            });
            self.happen(repo, by, What::OnLine(number, id));
        }
        Some(review)
    }

    /// Writes a comment, and returns its id.
    pub fn comment(&mut self, repo: &str, by: &str, (number, body): (u64, &str)) -> Option<u64> {
        let id = self.next_id();
        let state = self.repos.get_mut(repo)?;
        state.comments.push(CommentState {
            id,
            number,
            author: by.to_owned(),
            body: body.to_owned(),
            at: Self::now(),
            line: None,
            review: None,
            reply_to: None,
        });
        state.touch(number);
        self.happen(repo, by, What::Commented(number, id));
        Some(id)
    }

    /// Sets a status of a commit.
    pub fn status(
        &mut self,
        repo: &str,
        by: &str,
        (commit, context, word): (&str, &str, &str),
    ) -> Option<()> {
        let state = self.repos.get_mut(repo)?;
        state.statuses.push(StatusState {
            commit: commit.to_owned(),
            context: context.to_owned(),
            state: word.to_owned(),
            description: format!("{context}: {word}"),
            at: Self::now(),
            is_check_run: false,
        });
        let place = state.statuses.len() - 1;
        self.happen(repo, by, What::Status(place));
        Some(())
    }

    /// Takes what was pushed to the branches of open pull requests since it was looked at last.
    pub fn notice_pushes(&mut self) {
        let mut pushed = Vec::new();
        for (name, repo) in &mut self.repos {
            for (number, pull) in repo.pulls.iter_mut().filter(|(_, pull)| pull.is_open) {
                let head = repo.git.head(&pull.head).ok().flatten();
                if let Some(head) = head.filter(|head| *head != pull.commit)
                    && repo.git.refer(&format!("refs/pull/{number}/head"), &head).is_ok()
                {
                    pull.commit = head;
                    pull.updated_at = Self::now();
                    pushed.push((name.clone(), pull.author.clone(), *number));
                }
            }
        }
        for (repo, author, number) in pushed {
            self.happen(&repo, &author, What::Pushed(number));
        }
    }
}

impl RepoState {
    pub(super) const fn new(git: Bare) -> Self {
        Self {
            git,
            pulls: BTreeMap::new(),
            issues: BTreeMap::new(),
            comments: Vec::new(),
            reviews: Vec::new(),
            statuses: Vec::new(),
            labels: BTreeMap::new(),
            deployments: Vec::new(),
            jobs: Vec::new(),
            last_number: 0,
        }
    }

    pub(super) const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn head_of(&self, number: u64) -> Option<String> {
        Some(self.pulls.get(&number)?.commit.clone())
    }

    /// Whether there is an issue or a pull request with this number.
    pub(super) fn has(&self, number: u64) -> bool {
        self.pulls.contains_key(&number) || self.issues.contains_key(&number)
    }

    pub(super) fn touch(&mut self, number: u64) {
        if let Some(pull) = self.pulls.get_mut(&number) {
            pull.updated_at = State::now();
        }
        if let Some(issue) = self.issues.get_mut(&number) {
            issue.updated_at = State::now();
        }
    }
}
