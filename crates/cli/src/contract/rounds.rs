//! A verification round under a contract.

use std::path::PathBuf;
use std::sync::Arc;

use surety_common::clock;
use surety_common::domain::check::AcceptCheck;
use surety_executor::round::Begun;
use tokio::sync::mpsc::UnboundedSender;

use super::file::{Contract, Decided, What, now};
use super::opening::files_digest;
use super::store::Store;
use crate::failure::{Code, Failure};
use crate::verify::{
    Caution, OVERLAY_READABLE, Scene, StartFrom, Subject, Traces, VerdictFile, as_left,
    check_programs, default_verdict_file, judge, origin_of,
};

/// How a round is carried out.
#[derive(Debug)]
pub struct Judging<'j> {
    /// The workspace and its sandbox.
    pub scene: &'j Scene,
    /// The contracts of the workspace.
    pub store: &'j Store,
    /// Addresses that checks may ask.
    pub allowed: Option<&'j str>,
    /// Learns of each probe that begins.
    pub listener: Option<UnboundedSender<Begun>>,
    /// The data folder.
    pub data: &'j surety_common::config::DataDirConfig,
    /// Whether the verdict is written.
    pub writes: bool,
}

/// What a round came to.
#[derive(Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: VerdictFile,
    /// Where it was written; none where it was not.
    pub file: Option<PathBuf>,
}

/// Carries out a round of the open contract, judges it, and records it in the contract.
///
/// # Errors
/// No contract is open; it has no checks; a program is missing; the workspace cannot be read.
pub async fn judge_contract(judging: Judging<'_>) -> Result<Judgement, Failure> {
    let Judging { scene, store, allowed, listener, data, writes } = judging;
    let contract = store.open()?;
    let plan = contract.plan()?;
    let revision = scene.read_revision(&contract.commit).await?;
    if files_digest(&revision).await? != contract.files {
        let message =
            format!("git reads other files of the commit {} than at the opening", contract.commit);
        let advice = "Its objects were changed: fetch the repository again.";
        return Err(Failure::new(Code::GitFailed, message, advice));
    }
    let root = scene.workspace.root();
    check_programs(&plan, &scene.environment, false, |path| {
        revision.files().join(path).exists() || root.join(path).exists()
    })?;
    let opened = Arc::new(store.start()?);
    let place = opened.place.clone();
    let from = StartFrom::Revision(revision);
    let start = scene.start(&from, &plan, Some(opened)).await?;
    let origin = origin_of(&contract.base, &contract.commit, &start);
    let rules = Arc::clone(&start.manifest.rules);
    let mut cautions: Vec<Caution> = Vec::new();
    if start.manifest.place != place {
        cautions.extend(as_left(&start));
    }
    if plan.plan.verify.iter().any(AcceptCheck::is_hidden) {
        cautions.push(readable());
    }
    let participant = Traces { is_unconfined: true, lives: true, listener, ..Traces::default() };
    let judged = judge(scene, start, &plan, participant, allowed).await?;
    let subject = Subject { root, rules: &rules, origin, command: None, cautions };
    let verdict = VerdictFile::of(&plan, subject, &judged, clock::now());
    let file = if writes { Some(default_verdict_file(root, data)?) } else { None };
    if let Some(file) = &file {
        verdict.write(file)?;
    }
    store.change(|contract| {
        record(contract, &verdict, file.as_deref());
        Ok(())
    })?;
    Ok(Judgement { verdict, file })
}

fn record(contract: &mut Contract, verdict: &VerdictFile, file: Option<&std::path::Path>) {
    contract.rounds += 1;
    let digest = &verdict.workspace.digest;
    let detail = format!("{} at {digest}", verdict.stop_reason);
    let Some(file) = file else {
        contract.note(What::Checked, detail);
        return;
    };
    contract.note(What::Decided, detail);
    contract.verdict = Some(Decided {
        accepted: verdict.accepted,
        stop_reason: verdict.stop_reason.clone(),
        digest: digest.clone(),
        file: file.to_string_lossy().into_owned(),
        at: now(),
    });
}

/// An agent that runs outside of the sandbox reads the data folder, too.
fn readable() -> Caution {
    Caution {
        code: OVERLAY_READABLE.to_owned(),
        check: String::new(),
        detail: "the agent runs outside the sandbox, where it can read the files of hidden checks"
            .to_owned(),
    }
}
