//! The workspace of a round, compared with what it was before the run.

use super::{Originals, Round, StartFacts};
use crate::blocking::blocking;
use crate::snapshot::{Reach, Snapshots, net_changes};
use crate::tool::{ToolError, ToolOutcome, Workspace, WriteScope};
use std::sync::{Arc, MutexGuard, PoisonError};
use surety_common::domain::check::{CheckKind, changed_fact, changed_paths};
use surety_common::domain::check_inputs::protected_even_ignored;
use surety_common::domain::manifest::Manifest;
use surety_common::domain::plan::Plan;
use surety_common::domain::receipt::Fact;
use surety_common::domain::run::Policy;
use surety_common::domain::scope::with_folders_and_root;
use surety_common::telemetry;
use tracing::Instrument;

/// The workspace before the run.
#[derive(Debug, Clone)]
pub struct Start {
    /// Takes later snapshots under the rules of the first.
    pub snapshots: Arc<Snapshots>,
    /// The first snapshot.
    pub manifest: Arc<Manifest>,
    /// What else is known of it.
    pub facts: Arc<StartFacts>,
    /// The check inputs, where they are not stored elsewhere.
    pub originals: Arc<Originals>,
    /// The commit, in hexadecimal, where it is a revision of a repository.
    pub revision: Option<String>,
}

impl Round {
    /// Compares the workspace with what it was before the run.
    pub(super) async fn observe_change(&self, globs: &[String]) -> ToolOutcome {
        match self.changed(globs).await {
            Ok(facts) => ToolOutcome::done("compared with the start of the run", Vec::new(), facts),
            // What could not be compared is not known to be another.
            Err(error) => ToolOutcome::failed(error, Vec::new(), vec![changed_fact(globs, false)]),
        }
    }

    async fn changed(&self, globs: &[String]) -> Result<Vec<Fact>, ToolError> {
        let Some(start) = self.start()? else {
            return Ok(vec![changed_fact(globs, false)]);
        };
        let asked = match globs {
            [] => None,
            globs => Some(WriteScope::new(&with_folders_and_root(globs))?),
        };
        let reach = if asked.is_some() { Reach::Everything } else { Reach::NotIgnored };
        let now = self.snapshot_of(start, reach).await?;
        let changed = net_changes(&start.manifest, &now, asked.as_ref());
        let mut facts = vec![changed_fact(globs, changed.count > 0)];
        facts.extend(changed.facts());
        Ok(facts)
    }

    pub(super) fn start(&self) -> Result<Option<&Start>, ToolError> {
        self.setup.start.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// The workspace now, without its ignored paths; none when nothing is known of it before the run.
    ///
    /// # Errors
    /// `workspace_moved`; the workspace cannot be read; the round was cancelled.
    pub async fn snapshot(&self) -> Result<Option<Arc<Manifest>>, ToolError> {
        let Some(start) = self.start()? else { return Ok(None) };
        self.snapshot_of(start, Reach::NotIgnored).await.map(Some)
    }

    pub(super) async fn snapshot_of(
        &self,
        start: &Start,
        reach: Reach,
    ) -> Result<Arc<Manifest>, ToolError> {
        let probe = tracing::Span::current();
        let parent = if probe.is_none() { &self.setup.span } else { &probe };
        let span = telemetry::snapshot_span(parent, "round");
        let (snapshots, previous) = (Arc::clone(&start.snapshots), self.latest());
        let (folder, cancel) = (Arc::clone(&self.setup.folder), self.setup.cancel.clone());
        let taken = blocking(move || {
            let check =
                || if cancel.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
            let workspace = folder.workspace()?;
            workspace.check_in_place()?;
            let manifest = snapshots.take(&workspace, previous.as_deref(), reach, &check)?;
            Ok((manifest, workspace.given().to_owned()))
        });
        let (manifest, given) = taken.instrument(span).await??;
        let known = &start.manifest.place;
        let moved = (known.device, known.inode) != (manifest.place.device, manifest.place.inode);
        if known.inode != 0 && moved {
            return Err(Workspace::moved(&given));
        }
        let manifest = Arc::new(manifest);
        *self.lock_latest() = Some(Arc::clone(&manifest));
        Ok(manifest)
    }

    /// The last snapshot that the round knows.
    pub fn latest(&self) -> Option<Arc<Manifest>> {
        self.lock_latest().clone()
    }

    fn lock_latest(&self) -> MutexGuard<'_, Option<Arc<Manifest>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The globs of ignored paths that checks ask about, or that the policy protects.
pub fn counted(plan: &Plan, policy: &Policy) -> Vec<String> {
    let checks = plan.verify.iter().chain(plan.steps.iter().flat_map(|step| &step.verify));
    let asking = checks.filter(|check| check.kind == CheckKind::WorkspaceChange);
    let asked = asking.flat_map(|check| with_folders_and_root(&changed_paths(check)));
    let globs = asked.chain(protected_even_ignored(policy));
    let mut globs: Vec<String> =
        globs.filter(|glob| WriteScope::new(std::slice::from_ref(glob)).is_ok()).collect();
    globs.sort_unstable();
    globs.dedup();
    globs
}
