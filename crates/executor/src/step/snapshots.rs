//! What a run changes in its workspace, by comparing snapshots.
//!
//! ```text
//!   base, before the first turn (stored as an artifact)
//!     |-- before a command -- the command -- after it: facts of its receipt
//!     +-- at the verification: whether the workspace is another than at the base
//! ```

use super::history::Base;
use super::leased_run::LeasedRun;
use super::resource_wait::wait_for_resources;
use crate::blocking::blocking;
use crate::round::{Originals, Reading, Start, StartFacts, counted, lines_with_originals};
use crate::snapshot::{self, Reach, Snapshots, Written};
use crate::tool::{ErrorCode, Tool, ToolError, ToolOutcome, Workspace, WriteScope};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::check::{AcceptCheck, CheckKind, OverlayFiles, decode_overlay};
use surety_common::domain::check_inputs::InputRules;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::manifest::{
    Entry, IgnoreRules, Manifest, Place, Stamp, decode, digest, encode,
};
use surety_common::domain::receipt::Fact;
use surety_common::domain::run::VerifyCommands;
use surety_common::domain::scope::scope_globs;
use surety_common::domain::step::StepState;
use surety_common::domain::verification::Probe;
use surety_common::store::{self, Artifact};
use surety_common::telemetry;
use tracing::Instrument;

/// How long a snapshot waits for open files that others hold.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an artifact begins with.
const JOINED: &[u8] = b"surety-start-2\n";

/// The base of a run: taken now when nothing of the run could have written before, else read.
///
/// # Errors
/// The workspace cannot be read, or is another folder than at the base; the artifact is not kept.
pub(super) async fn base(run: &LeasedRun) -> Result<&Base, ToolError> {
    run.known.history.base.get_or_try_init(|| find_base(run)).await
}

/// The base, as a verification round compares with it.
///
/// # Errors
/// As [`base`].
pub(super) async fn start(run: &LeasedRun) -> Result<Start, ToolError> {
    let Base { snapshots, manifest, facts, .. } = base(run).await?;
    Ok(Start {
        snapshots: Arc::clone(snapshots),
        manifest: Arc::clone(manifest),
        facts: Arc::clone(facts),
        originals: Arc::default(),
        revision: None,
    })
}

/// Whether the run has a base: without one nothing of it could have written.
pub(super) async fn has_base(run: &LeasedRun) -> bool {
    run.spec.workspace.is_empty()
        || run.known.history.base.initialized()
        || has_stored_base(run).await
}

/// Whether there is a workspace that differs, perhaps, from that of the start.
pub(super) async fn may_be_written(run: &LeasedRun) -> bool {
    // A run without a workspace of its submitter has a folder only once something used it.
    let has_folder = !run.spec.workspace.is_empty() || run.folder.is_used();
    has_folder && has_base(run).await
}

/// Whether the receipts of steps decide a command. Such a receipt is stale where the workspace is another than right
/// after the command, whatever wrote there. So the workspace is read before the gate decides.
pub(super) async fn is_read_for_receipts(run: &LeasedRun) -> bool {
    let is_command = |check: &AcceptCheck| check.kind == CheckKind::CommandSuccess;
    run.spec.policy.verify_commands == VerifyCommands::ReceiptsOnly
        && run.plan.verify.iter().any(is_command)
        && may_be_written(run).await
}

/// Whether the run's row names its base.
pub(super) async fn has_stored_base(run: &LeasedRun) -> bool {
    !run.execution().await.counters.base_snapshot.is_empty()
}

/// The base, where this process knows it.
pub(super) fn known_base(run: &LeasedRun) -> Option<&Base> {
    run.known.history.base.get()
}

async fn find_base(run: &LeasedRun) -> Result<Base, ToolError> {
    if run.spec.workspace.is_empty() {
        let counted = counted(&run.plan, &run.spec.policy);
        let rules = Arc::new(IgnoreRules { defaults: true, counted, ..IgnoreRules::default() });
        let snapshots = Arc::new(Snapshots::resume(&rules)?);
        let manifest = Arc::new(Manifest::new(Place::default(), rules, Vec::new()));
        let facts = Arc::default();
        return Ok(Base { snapshots, manifest, facts, artifact: String::new() });
    }
    let artifact = run.execution().await.counters.base_snapshot.clone();
    if artifact.is_empty() { take_base(run).await } else { read_base(run, artifact).await }
}

async fn take_base(run: &LeasedRun) -> Result<Base, ToolError> {
    let counted = counted(&run.plan, &run.spec.policy);
    let span = telemetry::snapshot_span(&run.present_span(), "base");
    let rules = rules(run)?;
    let (snapshots, manifest, (facts, originals)) = wait_for_resources(run, PATIENCE, || {
        let (counted, lost, rules) = (counted.clone(), run.lease.calls.clone(), rules.clone());
        let lines = lines_with_originals(&run.plan, &run.spec.policy);
        in_workspace(run, move |workspace| {
            let check = || if lost.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
            let (snapshots, manifest) = Snapshots::begin(workspace, &counted, &check)?;
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let reading = Reading { rules: &rules, lines: &lines, revision_of: None };
            let read = StartFacts::read(workspace, &manifest, reading, &check)?;
            Ok((snapshots, manifest, read))
        })
    })
    .instrument(span)
    .await?;
    let body = joined(&encode(&manifest), &facts, &originals);
    let artifact = sha256_hex(&body);
    let stored = Artifact { digest: &artifact, body: &body, created_at: run.engine.now() };
    tokio::select! {
        kept = store::keep(&run.engine.pool, run.spec.id, stored) => kept.map_err(|error| {
            let message = format!("the first snapshot of the workspace could not be stored: {error}");
            ToolError::new(ErrorCode::OutputNotKept, message)
        })?,
        () = run.lease.calls.cancelled() => return Err(ToolError::called_off()),
    }
    keep_git(run, &facts);
    let manifest = Arc::new(manifest);
    run.known.history.remember(&manifest);
    Ok(Base { snapshots: Arc::new(snapshots), manifest, facts: Arc::new(facts), artifact })
}

/// Commands read what git reads outside of the workspace as it was at the start, whatever steps write to `.git`.
fn keep_git(run: &LeasedRun, facts: &StartFacts) {
    if let Some(folders) = facts.folders_of_git() {
        run.folder.keep_git(folders);
    }
}

/// Which files are check inputs of the run.
///
/// # Errors
/// A glob of the policy does not read.
pub(super) fn rules(run: &LeasedRun) -> Result<InputRules, ToolError> {
    InputRules::of(&run.spec.policy)
        .map_err(|problem| ToolError::new(ErrorCode::ArgumentsInvalid, problem.to_string()))
}

/// The manifest and the facts, each behind its length, and what is kept of check inputs.
fn joined(manifest: &[u8], facts: &StartFacts, originals: &Originals) -> Vec<u8> {
    let length = |part: &[u8]| u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes();
    let facts = facts.encode();
    let mut body = JOINED.to_vec();
    for part in [manifest, &facts] {
        body.extend(length(part));
        body.extend(part);
    }
    body.extend(originals.encode());
    body
}

/// The parts of an artifact.
struct Parted<'b> {
    manifest: &'b [u8],
    facts: &'b [u8],
    originals: &'b [u8],
}

/// The parts; none when the artifact is damaged.
fn parted(body: &[u8]) -> Option<Parted<'_>> {
    fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let (length, rest) = bytes.split_first_chunk()?;
        rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)
    }
    let (manifest, rest) = part(body.strip_prefix(JOINED)?)?;
    let (facts, originals) = part(rest)?;
    Some(Parted { manifest, facts, originals })
}

/// The check inputs of the start.
///
/// # Errors
/// The artifact is not kept, or does not read.
pub(super) async fn originals(run: &LeasedRun) -> Result<Arc<Originals>, ToolError> {
    let artifact = base(run).await?.artifact.as_str();
    if artifact.is_empty() {
        return Ok(Arc::default());
    }
    let body = stored(run, artifact).await?;
    let originals = parted(&body).and_then(|parted| Originals::decode(parted.originals));
    originals.map(Arc::new).ok_or_else(|| unread(artifact, "it is damaged"))
}

/// The files of the hidden checks among these probes. One that cannot be read fails the check that names it.
pub(super) async fn overlays(
    run: &LeasedRun,
    probes: &[Probe],
) -> BTreeMap<String, Arc<OverlayFiles>> {
    let mut overlays = BTreeMap::new();
    for digest in probes.iter().map(|probe| &probe.overlay).filter(|digest| !digest.is_empty()) {
        if overlays.contains_key(digest) {
            continue;
        }
        match stored(run, digest).await.map(|body| decode_overlay(&body)) {
            Ok(Some(files)) => drop(overlays.insert(digest.clone(), Arc::new(files))),
            Ok(None) => {
                tracing::error!(run_id = %run.spec.id, digest, "verify: the files of a hidden check are damaged");
            }
            Err(error) => {
                tracing::error!(run_id = %run.spec.id, %error, "verify: the files of a hidden check could not be read");
            }
        }
    }
    overlays
}

fn unread(artifact: &str, why: &str) -> ToolError {
    let message = format!("the artifact {artifact}: {why}");
    ToolError::new(ErrorCode::InternalError, message)
}

async fn stored(run: &LeasedRun, artifact: &str) -> Result<Vec<u8>, ToolError> {
    let body = store::patiently(|| store::artifact_body(&run.engine.pool, artifact)).await;
    let body = body.map_err(|error| unread(artifact, &error.to_string()))?;
    body.ok_or_else(|| unread(artifact, "it is not kept"))
}

async fn read_base(run: &LeasedRun, artifact: String) -> Result<Base, ToolError> {
    let body = stored(run, &artifact).await?;
    let damaged = || unread(&artifact, "it is damaged");
    let parted = parted(&body).ok_or_else(damaged)?;
    let manifest = decode(parted.manifest);
    let mut manifest = manifest.map_err(|error| unread(&artifact, &error.to_string()))?;
    let is_clone = run.spec.repository.is_some();
    if is_clone {
        manifest = in_workspace(run, move |workspace| place_here(&manifest, workspace)).await?;
    }
    let facts = StartFacts::decode(parted.facts).ok_or_else(damaged)?;
    if !is_clone {
        keep_git(run, &facts);
    }
    let snapshots = Arc::new(Snapshots::resume(&manifest.rules)?);
    let manifest = Arc::new(manifest);
    // Files that are as at the base need not be read again; those of a clone were written since.
    if !is_clone {
        run.known.history.remember(&manifest);
    }
    Ok(Base { snapshots, manifest, facts: Arc::new(facts), artifact })
}

/// The start of a clone, as if it had been taken in this one: it has the same files, with other times.
fn place_here(start: &Manifest, workspace: &Workspace) -> Result<Manifest, ToolError> {
    let place = snapshot::place_of(workspace)?;
    let entries = start.entries().iter().cloned();
    let entries = entries.map(|entry| Entry { stamp: Stamp::default(), ..entry }).collect();
    Ok(Manifest::new(place, Arc::clone(&start.rules), entries))
}

async fn in_workspace<T: Send + 'static>(
    run: &LeasedRun,
    work: impl FnOnce(&Workspace) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let folder = Arc::clone(&run.folder);
    blocking(move || {
        let workspace = folder.workspace()?;
        workspace.check_in_place()?;
        work(&workspace)
    })
    .await?
}

/// A snapshot of the run's workspace now.
///
/// # Errors
/// `workspace_moved`; the workspace cannot be read; the work on the run was called off.
pub(super) async fn snapshot(run: &LeasedRun, reach: Reach) -> Result<Arc<Manifest>, ToolError> {
    let base = base(run).await?;
    let span = telemetry::snapshot_span(&run.present_span(), "later");
    let manifest = wait_for_resources(run, PATIENCE, || {
        let (snapshots, previous) = (Arc::clone(&base.snapshots), run.known.history.latest());
        let lost = run.lease.lost.clone();
        in_workspace(run, move |workspace| {
            let check = || if lost.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
            snapshots.take(workspace, previous.as_deref(), reach, &check)
        })
    })
    .instrument(span)
    .await?;
    let known = &base.manifest.place;
    if known.inode != 0
        && (known.device, known.inode) != (manifest.place.device, manifest.place.inode)
    {
        return Err(Workspace::moved(run.spec.workspace.as_ref()));
    }
    let manifest = Arc::new(manifest);
    run.known.history.remember(&manifest);
    Ok(manifest)
}

/// Whether the workspace's path still leads to the folder that the run began in.
///
/// # Errors
/// `workspace_moved`; what the operating system says.
pub(super) async fn check_in_place(run: &LeasedRun) -> Result<(), ToolError> {
    if run.spec.workspace.is_empty() || !run.folder.is_used() && !has_base(run).await {
        return Ok(());
    }
    let known = if has_base(run).await {
        base(run).await?.manifest.place.clone()
    } else {
        Place::default()
    };
    let moved_to = run.spec.workspace.clone();
    in_workspace(run, move |workspace| {
        let is_same = known.inode == 0 || workspace.identity()? == (known.device, known.inode);
        if is_same { Ok(()) } else { Err(Workspace::moved(moved_to.as_ref())) }
    })
    .await
}

/// The end of a call whose writes were found out.
pub(super) struct EndedWatch {
    /// With what it wrote.
    pub(super) outcome: ToolOutcome,
    /// What of that lies outside what its step may write, in words; empty where nothing does.
    pub(super) violation: String,
}

/// A call whose writes are found out by comparison.
pub(super) struct Watched {
    index: usize,
    before: Arc<Manifest>,
    began_at: DateTime<Utc>,
    running: Vec<usize>,
}

impl Watched {
    /// Begins to watch a call; none when its tool reports its writes itself.
    ///
    /// # Errors
    /// As [`snapshot`].
    pub(super) async fn begin(
        run: &LeasedRun,
        index: usize,
        tool: &dyn Tool,
    ) -> Result<Option<Self>, ToolError> {
        if tool.reports_writes() {
            return Ok(None);
        }
        let began_at = run.engine.now();
        let running = run.execution().await.steps_in(StepState::Running).collect();
        let before = snapshot(run, Reach::NotIgnored).await?;
        Ok(Some(Self { index, before, began_at, running }))
    }

    /// Adds to the outcome what the call wrote. A write outside the step's scope fails it and its step.
    pub(super) async fn end(
        self,
        run: &LeasedRun,
        scope: &WriteScope,
        mut outcome: ToolOutcome,
    ) -> EndedWatch {
        let written = match self.after(run, &mut outcome).await {
            Ok(after) => {
                let others = self.others(run).await;
                Written::between(&self.before, &after, scope, &others)
            }
            Err(error) => {
                return EndedWatch { outcome: unknown(outcome, error), violation: String::new() };
            }
        };
        outcome.facts.extend(written.facts.iter().cloned());
        if written.outside_count == 0 {
            return EndedWatch { outcome, violation: String::new() };
        }
        let outside = written.outside_in_words();
        let id = run.graph.id(self.index);
        let said = format!("it wrote outside what step {id} may write: {outside}");
        let code = ErrorCode::WriteScopeViolation;
        outcome.success = false;
        outcome.error_code = Some(code);
        outcome.summary = format!("{}; {said}", outcome.summary);
        EndedWatch { outcome, violation: format!("{}: {said}", code.as_str()) }
    }

    /// The workspace after the call. Where receipts decide, its commands state what it was before and
    /// after them.
    async fn after(
        &self,
        run: &LeasedRun,
        outcome: &mut ToolOutcome,
    ) -> Result<Arc<Manifest>, ToolError> {
        let after = snapshot(run, Reach::NotIgnored).await?;
        if run.spec.policy.verify_commands == VerifyCommands::ReceiptsOnly {
            let ends = [Arc::clone(&self.before), Arc::clone(&after)];
            let [before, after] = blocking(move || ends.map(|end| digest(&end))).await?;
            for fact in &mut outcome.facts {
                if let Fact::Command { conditions: Some(conditions), .. } = fact {
                    conditions.workspace_before.clone_from(&before);
                    conditions.workspace_after.clone_from(&after);
                }
            }
        }
        Ok(after)
    }

    /// The scopes of the steps that were at work at any time during the call.
    async fn others(&self, run: &LeasedRun) -> Vec<WriteScope> {
        let execution = run.execution().await;
        let steps = run.plan.steps.iter().zip(&execution.steps).enumerate();
        steps
            .filter(|(place, (step, progress))| {
                *place != self.index
                    && !step.write_scope.is_empty()
                    && (progress.state == StepState::Running
                        || self.running.contains(place)
                        || progress.started_at.is_some_and(|at| at >= self.began_at))
            })
            .filter_map(|(_, (step, _))| WriteScope::new(&scope_globs(&step.write_scope)).ok())
            .collect()
    }
}

/// What the call wrote is not known: that proves nothing, and makes stale whatever was proven.
fn unknown(mut outcome: ToolOutcome, error: ToolError) -> ToolOutcome {
    outcome.success = false;
    if outcome.error_code != Some(ErrorCode::Cancelled) {
        outcome.error_code = Some(error.code);
    }
    outcome.summary = format!("{}; what it wrote is not known: {error}", outcome.summary);
    let path = ".".to_owned();
    outcome.facts.push(Fact::FileWritten { path, before_digest: None, after_digest: None });
    outcome
}
