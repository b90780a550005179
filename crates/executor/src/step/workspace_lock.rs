//! The lock of a run's workspace: taken before the first work on the run, held until the run ends.

use super::ended::Ended;
use super::history::Base;
use super::leased_run::LeasedRun;
use super::snapshots;
use crate::blocking::blocking;
use crate::tool::ToolError;
use std::io::ErrorKind;
use std::path::PathBuf;
use surety_common::domain::execution::Wait;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::fault::FaultCode;
use surety_common::domain::run::{OnBusy, WorkspaceLock};
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::domain::workspace::{check_within, check_workspace};
use surety_common::store::{self, Holder, HostPath};
use uuid::Uuid;

/// Takes the lock unless this process holds it already. Answers whether the work may go on; else the run
/// was blocked or ended.
pub(super) async fn ensure(run: &LeasedRun) -> Result<bool, Ended> {
    if run.spec.workspace.is_empty() || run.workspace_ready.get().is_some() {
        return Ok(true);
    }
    if run.spec.repository.is_some() {
        // No other run works in its clone, and its protected files were looked for when it was opened.
        run.workspace_ready.get_or_init(|| ());
        return Ok(true);
    }
    // On the heap, so that the futures of runs without a workspace stay small: each phase of each run makes one.
    Box::pin(take(run)).await
}

/// Judges the folder, locks it, and looks for what its policy protects.
async fn take(run: &LeasedRun) -> Result<bool, Ended> {
    let path = match real_path(run).await {
        Ok(path) => path,
        Err(why) if !snapshots::has_stored_base(run).await => {
            refuse(run, FaultCode::WorkspaceRefused, &why).await?;
            return Ok(false);
        }
        // It was there at the start of the run: its first call says that it moved.
        Err(_) => PathBuf::from(&run.spec.workspace),
    };
    let roots = &run.spec.policy.workspace_roots;
    let fits =
        check_workspace(&path, &run.engine.reserved).and_then(|()| check_within(&path, roots));
    if let Err(unfit) = fits {
        refuse(run, FaultCode::WorkspaceRefused, &unfit.to_string()).await?;
        return Ok(false);
    }
    if run.spec.policy.workspace_lock == WorkspaceLock::Exclusive && !run.known.has_locked(&path) {
        if let Some(holder) = lock(run, &HostPath::new(&run.engine.host_label, &path)).await? {
            give_way(run, &holder).await?;
            return Ok(false);
        }
        run.known.locks(path);
    }
    if !begin(run).await? {
        return Ok(false);
    }
    // Set once by the first work; a second one found the same lock.
    run.workspace_ready.get_or_init(|| ());
    Ok(true)
}

/// Locks the folder, unless the run holds its lock already. Answers the run that is in the way.
async fn lock(run: &LeasedRun, folder: &HostPath) -> Result<Option<Holder>, Ended> {
    let (pool, run_id) = (&run.engine.pool, run.spec.id);
    // The start of a workspace is stored under its lock, which only the run's end frees. To take a lock, all
    // runs of the host line up.
    if snapshots::has_stored_base(run).await
        && store::patiently(|| store::holds_workspace(pool, run_id, folder)).await?
    {
        return Ok(None);
    }
    let lock = || store::lock_workspace(pool, run_id, folder, run.engine.now());
    Ok(store::patiently(lock).await?)
}

/// Takes the start of the run before its first turn: what another process does to the workspace from here on is a change.
/// Answers whether each protected glob names something there; else the run ends. What cannot be read is said by the first
/// call.
async fn begin(run: &LeasedRun) -> Result<bool, Ended> {
    if snapshots::has_base(run).await {
        return Ok(true);
    }
    match snapshots::base(run).await {
        Ok(base) => protected_is_there(run, base).await,
        Err(_) => Ok(true),
    }
}

/// The same, with the start.
pub(super) async fn protected_is_there(run: &LeasedRun, base: &Base) -> Result<bool, Ended> {
    let Ok(rules) = snapshots::rules(run) else { return Ok(true) };
    let Some(glob) = rules.unmatched(&base.manifest) else { return Ok(true) };
    let why = format!(
        "policy.protect has {glob:?}, which names nothing in the workspace; name a file or a folder that is there"
    );
    refuse(run, FaultCode::BadRequest, &why).await?;
    Ok(false)
}

/// The folder without links. What else may hinder that it is resolved is for the first call to say.
///
/// # Errors
/// It is not there, or is no folder.
async fn real_path(run: &LeasedRun) -> Result<PathBuf, String> {
    let named = PathBuf::from(&run.spec.workspace);
    let resolving = named.clone();
    let look =
        move || resolving.canonicalize().and_then(|path| Ok((path.metadata()?.is_dir(), path)));
    let looked: Result<_, ToolError> = blocking(look).await;
    let shown = named.display();
    match looked {
        Ok(Ok((true, path))) => Ok(path),
        Ok(Ok((false, _))) => Err(format!("{shown} is not a folder; name a project folder")),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {
            let host = &run.engine.host_label;
            Err(format!(
                "{shown} does not exist on the executor's host {host}; make the folder, or name another"
            ))
        }
        Ok(Err(_)) | Err(_) => Ok(named),
    }
}

/// Another run holds the folder: this one waits for its end, or ends where its policy says so.
async fn give_way(run: &LeasedRun, holder: &Holder) -> Result<(), Ended> {
    let Holder { run_id, path } = holder;
    let busy = format!("run {run_id} works in {path}");
    if run.spec.policy.on_busy == OnBusy::Fail {
        return refuse(run, FaultCode::WorkspaceBusy, &busy).await;
    }
    let wait = Wait::new(
        Uuid::now_v7(),
        WaitingOn::Workspace,
        run.engine.now(),
        format!("the end of run {run_id}, which works in {path}"),
    );
    run.change(|draft| draft.block(&run.graph, wait.clone())).await
}

/// Ends a run that cannot be carried out as it was asked for.
pub(super) async fn refuse(run: &LeasedRun, code: FaultCode, why: &str) -> Result<(), Ended> {
    run.change(|draft| {
        draft.stop(
            &run.graph,
            Ending {
                stop_reason: StopReason::Aborted,
                user_message: format!("{}: {why}", code.as_str()),
                internal_reason: code.as_str().to_owned(),
            },
        )
    })
    .await
}
