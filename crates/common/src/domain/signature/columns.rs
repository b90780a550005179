//! The digests of the columns of runs, tasks and plans that feed a verdict.

use super::envelope::line_with;
use super::key::write_hex_text;
use super::merkle::Digest;
use crate::domain::json::{ObjectText, Value, sha256};
use data_encoding::HEXLOWER;

/// The digests of the columns of a run, in the order of [`RunColumns::NAMES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunColumns(pub [Digest; 10]);

impl RunColumns {
    /// The columns of the table `run` that feed a verdict.
    pub const NAMES: [&'static str; 10] = [
        "created_at",
        "driver",
        "forked_from",
        "goal",
        "limits",
        "namespace",
        "policy",
        "repository",
        "submitter",
        "workspace",
    ];

    /// Of the texts of these columns; a column without a value is empty.
    pub fn of(texts: [&str; 10]) -> Self {
        Self(texts.map(|text| sha256(&[text.as_bytes()])))
    }

    /// The canonical line of an export.
    pub fn to_line(&self) -> String {
        line_with("run", |out| self.write(out))
    }

    /// Writes the value of the key `run`.
    pub(super) fn write(&self, out: &mut String) {
        with_columns(ObjectText::begin(out), &Self::NAMES, &self.0).end();
    }

    /// Reads the value of the key `run`.
    pub fn read(value: &Value) -> Option<Self> {
        read_columns(value, &Self::NAMES).map(Self)
    }
}

/// The digests of the columns of a run's task, in the order of [`TaskColumns::NAMES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskColumns(pub [Digest; 6]);

impl TaskColumns {
    /// The columns of the table `task` that feed a verdict. The assignee is the one that the task began with.
    pub const NAMES: [&'static str; 6] =
        ["action_type", "addressee", "assignee", "forge", "happened_at", "payload"];

    /// Of the texts of these columns.
    pub fn of(texts: [&str; 6]) -> Self {
        Self(texts.map(|text| sha256(&[text.as_bytes()])))
    }

    /// The canonical line of an export.
    pub fn to_line(&self) -> String {
        line_with("task", |out| self.write(out))
    }

    /// Writes the value of the key `task`.
    pub(super) fn write(&self, out: &mut String) {
        with_columns(ObjectText::begin(out), &Self::NAMES, &self.0).end();
    }

    /// Reads the value of the key `task`.
    pub fn read(value: &Value) -> Option<Self> {
        read_columns(value, &Self::NAMES).map(Self)
    }
}

/// The columns that are stored and signed with one journal row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignedColumns {
    /// Of the run, in the row that creates it.
    pub run: Option<RunColumns>,
    /// Of the run's task, in the same row; none for a run without a task.
    pub task: Option<TaskColumns>,
    /// Of the plans that are stored with the row.
    pub plans: Vec<PlanColumns>,
}

impl SignedColumns {
    /// The lines of an export, which are leaves, in their order.
    pub(super) fn to_lines(&self) -> impl Iterator<Item = String> {
        let Self { run, task, plans } = self;
        let run = run.iter().map(RunColumns::to_line);
        let task = task.iter().map(TaskColumns::to_line);
        run.chain(task).chain(plans.iter().map(PlanColumns::to_line))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.run.is_none() && self.task.is_none() && self.plans.is_empty()
    }
}

/// The columns of one run as the database has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundColumns {
    /// Of the run.
    pub run: RunColumns,
    /// Of its task; none for a run without a task.
    pub task: Option<TaskColumns>,
    /// Of its plans.
    pub plans: Vec<PlanColumns>,
}

/// The digests of the columns of a plan revision, in the order of [`PlanColumns::NAMES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanColumns {
    /// The revision, from 1.
    pub revision: u32,
    /// The digests.
    pub columns: [Digest; 5],
}

impl PlanColumns {
    /// The columns of the table `plan` that feed a verdict.
    pub const NAMES: [&'static str; 5] =
        ["body", "created_at", "digest", "parent_digest", "reason"];

    /// Of the texts of these columns.
    pub fn of(revision: u32, texts: [&str; 5]) -> Self {
        Self { revision, columns: texts.map(|text| sha256(&[text.as_bytes()])) }
    }

    /// The canonical line of an export.
    pub fn to_line(&self) -> String {
        line_with("plan", |out| self.write(out))
    }

    /// Writes the value of the key `plan`.
    pub(super) fn write(&self, out: &mut String) {
        let columns = with_columns(ObjectText::begin(out), &Self::NAMES, &self.columns);
        columns.number("revision", self.revision).end();
    }

    /// Reads the value of the key `plan`.
    pub fn read(value: &Value) -> Option<Self> {
        let revision = value.get("revision")?.as_number()?.parse().ok()?;
        Some(Self { revision, columns: read_columns(value, &Self::NAMES)? })
    }
}

/// The names are in the order of the canonical form.
fn with_columns<'o>(
    mut object: ObjectText<'o>,
    names: &[&str],
    digests: &[Digest],
) -> ObjectText<'o> {
    for (name, digest) in names.iter().zip(digests) {
        object = object.with(name, |out| write_hex_text(out, digest));
    }
    object
}

fn read_columns<const N: usize>(value: &Value, names: &[&str; N]) -> Option<[Digest; N]> {
    let mut digests = [[0; 32]; N];
    for (place, name) in digests.iter_mut().zip(names) {
        *place = digest(value.get(name)?)?;
    }
    Some(digests)
}

pub(super) fn digest(value: &Value) -> Option<Digest> {
    HEXLOWER.decode(value.as_str()?.as_bytes()).ok()?.try_into().ok()
}
