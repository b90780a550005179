//! A verification round under a contract.

use std::path::PathBuf;
use std::sync::Arc;

use surety_common::clock;
use surety_common::config::ClientConfig;
use surety_common::domain::check::AcceptCheck;
use surety_executor::round::Begun;
use tokio::sync::mpsc::UnboundedSender;

use super::file::{Contract, Decided, What, now};
use super::last_round::LastRound;
use super::store::Store;
use crate::failure::{Code, Failure};
use crate::verify::{
    Caution, Kept, OVERLAY_READABLE, Scene, Signer, StartFrom, Subject, Traces, VerdictFile,
    as_left, check_programs, default_verdict_file, judge, origin_of,
};

/// The caution about a start that no repository keeps.
const NO_BASE_REVISION: &str = "no_base_revision";

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
    /// Where the data folder and the trusted keys are.
    pub client: &'j ClientConfig,
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
    let Judging { scene, store, allowed, listener, client, writes } = judging;
    let contract = store.open()?;
    let plan = contract.plan()?;
    let opened = store.start()?;
    let place = opened.place.clone();
    let kept = Arc::new(Kept { folder: store.copy(), manifest: Arc::new(opened) });
    let (from, opened) = match &contract.commit {
        Some(commit) => (StartFrom::Revision(scene.read_revision(commit).await?), Some(kept)),
        None => (StartFrom::Kept(kept), None),
    };
    let root = scene.workspace.root();
    check_programs(&plan, &scene.environment, false, |path| {
        from.files().is_some_and(|files| files.join(path).exists()) || root.join(path).exists()
    })?;
    let signer = Signer::open(client)?;
    let start = scene.start(&from, &plan, opened).await?;
    let origin = origin_of(&from, &contract.base, &start);
    let rules = Arc::clone(&start.manifest.rules);
    let mut cautions: Vec<Caution> = without_revision(&contract).into_iter().collect();
    if start.manifest.place != place {
        cautions.extend(as_left(&start));
    }
    if plan.plan.verify.iter().any(AcceptCheck::is_hidden) {
        cautions.push(readable());
    }
    let participant =
        Traces { is_unconfined: true, lives: true, listener, cautions, ..Traces::default() };
    let judged = judge(scene, start, &plan, participant, allowed).await?;
    let subject = Subject { root, rules: &rules, origin, command: None };
    let mut verdict = VerdictFile::of(&plan, subject, &judged, clock::now());
    signer.sign(&mut verdict)?;
    let file = if writes { Some(default_verdict_file(root, &client.folder)?) } else { None };
    store.change(|open| {
        still_open(&contract, open)?;
        if let Some(file) = &file {
            verdict.write(file)?;
        }
        record(open, &verdict, file.as_deref());
        // With the contract: a later one has no round of an earlier one.
        store.keep_round(&LastRound::of(&verdict, file.as_deref()))
    })?;
    Ok(Judgement { verdict, file })
}

/// Looks whether the open contract is still the one that a round began with: a round takes minutes, and its verdict is about
/// the base and the checks of then.
fn still_open(began: &Contract, open: &Contract) -> Result<(), Failure> {
    let advice = "Ask for a round again: it is about what is open now.";
    let identity = |contract: &Contract| {
        (contract.opened_at.clone(), contract.opened_by.clone(), contract.commit.clone())
    };
    if identity(began) != identity(open) || began.checks != open.checks {
        let message = "the contract was closed while the round was at work, and another one is open; nothing was recorded";
        return Err(Failure::new(Code::ContractMissing, message, advice));
    }
    if began.proposal != open.proposal {
        let message = "another plan was proposed while the round was at work; nothing was recorded";
        return Err(Failure::new(Code::VerificationFailed, message, advice));
    }
    Ok(())
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

/// What a start that is no revision leaves unproven.
fn without_revision(contract: &Contract) -> Option<Caution> {
    contract.commit.is_none().then(|| Caution {
        code: NO_BASE_REVISION.to_owned(),
        check: String::new(),
        detail: format!(
            "there is no commit to compare with ({}): the start is the folder as it was at {}, and nothing says \
             what was changed before",
            contract.no_revision(),
            contract.opened_at
        ),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Proposal;
    use crate::contract::fixture::contract;

    #[test]
    fn a_round_is_recorded_only_in_the_contract_and_for_the_plan_that_it_began_with() {
        let began = contract();
        let mut open = began.clone();
        open.note(What::Checked, "another round ended meanwhile");
        open.rounds += 1;
        assert!(still_open(&began, &open).is_ok());
        let another = Contract { opened_at: "later".to_owned(), ..began.clone() };
        let failure = still_open(&began, &another).unwrap_err();
        assert!(failure.to_text().contains("contract_missing"), "{failure:?}");
        open.proposal = Some(Proposal { revision: 1, plan: "{}".to_owned() });
        let failure = still_open(&began, &open).unwrap_err();
        assert!(failure.to_text().contains("verification_failed"), "{failure:?}");
    }
}
