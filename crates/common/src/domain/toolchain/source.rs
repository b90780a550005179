//! A payload while it is read, and the parts that all events share.

use super::action::EventType;
use super::event::{Assignee, Ignored, ToolchainEvent};
use super::forge::Forge;
use super::own::{OwnAccount, marks_own};
use super::payload::Payload;
use super::reading::Reading;
use super::subject::Subject;
use super::withdrawal::{Withdrawal, WithdrawnFrom};
use crate::domain::problem::Problem;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What the operator configured about events.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The service's own accounts.
    pub own: Vec<OwnAccount>,
    /// The addresses of the forges of this kind, where there are several to tell apart.
    pub servers: Vec<String>,
}

/// A payload while it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) forge: Forge,
    pub(super) payload: Payload<'a>,
    pub(super) rules: &'a Rules,
}

/// What happened to which subject, before it is known who must act.
#[derive(Debug, Clone)]
pub(super) struct Occurrence {
    pub(super) event_type: EventType,
    pub(super) subject: Subject,
    pub(super) from: String,
    pub(super) happened_at: DateTime<Utc>,
    pub(super) context: Map<String, Value>,
    /// What distinguishes it from other events of its kind about its subject: a commit, or the id of a comment.
    pub(super) mark: String,
    pub(super) brief: String,
}

impl Occurrence {
    /// Adds fields to the context.
    pub(super) fn add<const N: usize>(&mut self, fields: [(&str, Value); N]) {
        self.context.extend(context(fields));
    }
}

impl Source<'_> {
    pub(super) fn repo(&self) -> Result<String, Problem> {
        self.payload.repository("/repository/full_name")
    }

    /// The host of the forge, by the addresses of the repository. Empty where the operator configured fewer than two forges
    /// of the kind, and where no address is that of one of them: a forge may name itself by the address of a request, so
    /// that the same one has several.
    fn server(&self) -> String {
        let known: BTreeSet<String> =
            self.rules.servers.iter().filter_map(|it| host_of(it)).collect();
        if known.len() < 2 {
            return String::new();
        }
        let pointers =
            ["/repository/html_url", "/run/repository/html_url", "/repository/clone_url"];
        let hosts = pointers.iter().filter_map(|it| host_of(&self.payload.address(it)));
        hosts.into_iter().find(|host| known.contains(host)).unwrap_or_default()
    }

    /// A pull request, an issue, or a commit of a repository.
    pub(super) fn subject(
        &self,
        repo: String,
        number: Option<u64>,
        is_pull_request: bool,
    ) -> Subject {
        Subject { server: self.server(), repo, number, is_pull_request }
    }

    /// Whether the service itself wrote the text at a pointer.
    pub(super) fn is_own(&self, author: &str, text: &str) -> bool {
        marks_own(&self.rules.own, author, text)
    }

    /// The tasks of an occurrence: one for each assignee.
    pub(super) fn tasks(
        &self,
        occurrence: &Occurrence,
        assignees: impl IntoIterator<Item = Assignee>,
    ) -> Reading {
        let tasks: Vec<_> =
            assignees.into_iter().map(|assignee| self.task(occurrence, assignee)).collect();
        if tasks.is_empty() { Reading::Ignored(Ignored::NoAccount) } else { Reading::Tasks(tasks) }
    }

    /// What the forge withdraws about a subject.
    pub(super) fn withdrawn(
        &self,
        reason: Ignored,
        subject: Subject,
        (from, happened_at): (WithdrawnFrom, DateTime<Utc>),
    ) -> Reading {
        Reading::Withdrawn(Withdrawal { reason, source: self.forge, subject, from, happened_at })
    }

    pub(super) fn task(&self, occurrence: &Occurrence, assignee: Assignee) -> ToolchainEvent {
        let Occurrence { event_type, subject, from, happened_at, context, mark, brief } =
            occurrence;
        let number = subject.number.map(|number| number.to_string()).unwrap_or_default();
        let action = event_type.action();
        let key = [
            self.forge.as_str(),
            &subject.repo,
            action.as_str(),
            event_type.as_str(),
            &number,
            mark,
            &assignee.to_string(),
        ];
        ToolchainEvent {
            event_type: *event_type,
            from: from.clone(),
            assignee,
            subject: subject.clone(),
            brief: brief.clone(),
            context: context.clone(),
            source: self.forge,
            happened_at: *happened_at,
            key: key.join("|"),
            is_among_others: false,
            is_head: false,
        }
    }
}

/// The host of an address, with its port, in lower case.
fn host_of(address: &str) -> Option<String> {
    let (_, rest) = address.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let host = host.rsplit('@').next().unwrap_or(host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// The context of an event, in the order of the specification.
pub(super) fn context<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
