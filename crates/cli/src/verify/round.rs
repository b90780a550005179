//! The verification round and its verdict, by the functions of the executor and of the gate.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use surety_acceptgate::check::Answer;
use surety_acceptgate::check::http_probe::Probes;
use surety_acceptgate::evidence::RunEvidence;
use surety_acceptgate::verdict::{Judgement, Question};
use surety_common::domain::acceptance::Resolution;
use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::fault::Fault;
use surety_common::domain::manifest::{Manifest, digest};
use surety_common::domain::run::InDoubt;
use surety_common::domain::verdict::Verdict;
use surety_common::domain::verification::{caution_of_all, probes, wrote_files};
use surety_executor::round::{Additions, Begun, CarriedOut, Chain, Round, Setup, Start};
use surety_executor::snapshot::{NetChanges, Written, net_changes};
use surety_executor::tool::WriteScope;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::spawn_blocking;

use super::asked::can_ask;
use super::file::Caution;
use super::plan::VerifyPlan;
use super::scene::{Scene, defect, failed, rules};
use crate::failure::{Code, Failure};
use crate::output::note;

/// The most rounds: a workspace that changes during the first one is verified once more.
const MOST_ROUNDS: u32 = 2;

/// What the caution `participant_unconfined` says.
const UNCONFINED: &str = "the command or the agent ran outside the sandbox: it could change toolchains and Surety's own files";

/// How long nothing may be written before a workspace that a live participant changes counts as still.
const STILL_FOR: Duration = Duration::from_millis(100);

/// What a verification came to.
#[derive(Debug)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// The digest of the workspace at the end of the round.
    pub digest: String,
    /// The probes of the round, in their order.
    pub carried: Vec<CarriedOut>,
    /// The receipts.
    pub chain: Chain,
    /// What is another than at the start.
    pub changed: NetChanges,
    /// What the person at the terminal is to be asked, with the difference of the check inputs; none where the
    /// verdict stands.
    pub question: Option<(Question, String)>,
    round: Arc<Round>,
    number: u32,
    answers: Answers,
}

/// What other services answered, by the places of the checks.
type Answers = BTreeMap<usize, Answer>;

/// What is known of the command that ran before the round.
#[derive(Debug, Default)]
pub struct Traces {
    /// What no check may see, because it was not there before the command.
    pub absent: Vec<PathBuf>,
    /// Whether the command ran outside the sandbox.
    pub is_unconfined: bool,
    /// What weakens a verdict beside that: about the participant, or about the start.
    pub cautions: Vec<Caution>,
    /// Whether it still lives, and may write while the round is at work.
    pub lives: bool,
    /// Whether the person at the terminal may be asked, where there is one.
    pub asks: bool,
    /// Learns of each probe that begins.
    pub listener: Option<UnboundedSender<Begun>>,
}

/// Carries out the round and decides.
///
/// # Errors
/// The workspace cannot be read; the gate has no capacity; the verification was cancelled.
pub async fn judge(
    scene: &Scene,
    start: Start,
    plan: &VerifyPlan,
    participant: Traces,
    allowed: Option<&str>,
) -> Result<Judged, Failure> {
    let base = Arc::clone(&start.manifest);
    let sandbox = Arc::new(scene.sandbox.hiding(participant.absent).under(&plan.policy));
    let rules = rules(plan)?;
    let additions = additions(plan);
    let begin = |latest: Arc<Manifest>, copies: bool| {
        Round::new(Setup {
            folder: Arc::clone(&scene.folder),
            environment: Arc::clone(&scene.environment),
            sandbox: Arc::clone(&sandbox),
            secrets: Arc::default(),
            latest: Some(latest),
            start: Ok(Some(start.clone())),
            rules: rules.clone(),
            additions: additions.clone(),
            time_limit: Duration::from_secs(plan.limits.step_deadline_s),
            copies,
            span: tracing::Span::none(),
            cancel: scene.cancel.clone(),
            kill: scene.cancel.clone(),
        })
    };
    let mut round = begin(Arc::clone(&base), false);
    let mut before = snapshot(&round, &base).await?;
    if participant.lives {
        // An overlay over a folder that changes has no defined content: a copy is made where writes go on.
        tokio::time::sleep(STILL_FOR).await;
        let later = snapshot(&round, &base).await?;
        if digest(&later) != digest(&before) {
            round = begin(Arc::clone(&later), true);
        }
        before = later;
    }
    let mut chain = Chain::heard_by(participant.listener);
    let written = Written::between(&base, &before, &WriteScope::whole(), &[]);
    chain.observe("compared with the start of the verification", written.facts);
    note_cautions(&mut chain, participant.is_unconfined, &participant.cautions);
    let checks = &plan.plan.verify;
    let wanted = probes(checks, &plan.policy, wrote_files(chain.receipts()));
    let mut number = 1;
    let carried = loop {
        let carried = round.carry_out(wanted.clone(), number, &mut chain).await;
        let (carried, end) = carried.map_err(|error| failed(&error))?;
        let moved = end.is_some_and(|end| !end.moved.is_empty());
        if !moved || number == MOST_ROUNDS {
            break carried;
        }
        number += 1;
        let latest = round.latest().unwrap_or_else(|| Arc::clone(&base));
        round = begin(latest, participant.lives);
    };
    let after = round.latest().unwrap_or_else(|| Arc::clone(&base));
    let changed = net_changes(&base, &after, None);
    let answers = answers(checks, allowed).await?;
    // Without the difference nothing is asked: what a policy would ask about is then refused.
    let asks = plan.policy.in_doubt == InDoubt::Ask && participant.asks && can_ask();
    let difference = if asks {
        round.add_difference(number, &carried, &mut chain).await.map_err(|error| failed(&error))?
    } else {
        None
    };
    let (judgement, chain, answers) = decide(scene, plan, (chain, answers), number).await?;
    let Judgement { verdict, question } = judgement;
    let question = question.zip(difference);
    let digest = digest(&after);
    Ok(Judged { verdict, digest, carried, chain, changed, question, round, number, answers })
}

/// Records what weakens the verdict as a whole.
fn note_cautions(chain: &mut Chain, is_unconfined: bool, cautions: &[Caution]) {
    let unconfined = is_unconfined.then_some(("participant_unconfined", UNCONFINED));
    let cautions = cautions.iter().map(|caution| (&*caution.code, &*caution.detail));
    for (code, detail) in unconfined.into_iter().chain(cautions) {
        chain.observe(detail, vec![caution_of_all(code, detail)]);
    }
}

/// What other services answer to checks that ask them.
async fn answers(checks: &[AcceptCheck], allowed: Option<&str>) -> Result<Answers, Failure> {
    if !checks.iter().any(|check| check.kind == CheckKind::HttpProbe) {
        return Ok(BTreeMap::new());
    }
    let probes = Probes::new(allowed)
        .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
    Ok(probes.answers(checks).await.map_err(Fault::from)?)
}

/// The verdict with the answer of the person who was asked. The workspace must still be what was shown, else the
/// verdict stays as without an answer.
///
/// # Errors
/// As [`judge`].
pub async fn resolve(
    scene: &Scene,
    plan: &VerifyPlan,
    judged: Judged,
    answer: &Resolution,
) -> Result<Judged, Failure> {
    let now = judged.round.snapshot().await.map_err(|error| failed(&error))?;
    if now.is_none_or(|now| digest(&now) != answer.workspace) {
        note("surety: the workspace is another than the one that was shown: the answer is void");
        return Ok(Judged { question: None, ..judged });
    }
    let Judged { mut chain, answers, number, .. } = judged;
    chain.answer(answer);
    let (judgement, chain, answers) = decide(scene, plan, (chain, answers), number).await?;
    Ok(Judged {
        verdict: judgement.verdict,
        digest: judged.digest,
        carried: judged.carried,
        changed: judged.changed,
        round: judged.round,
        question: None,
        chain,
        number,
        answers,
    })
}

/// Decides by the receipts. It may take a processor for a moment.
async fn decide(
    scene: &Scene,
    plan: &VerifyPlan,
    (chain, answers): (Chain, Answers),
    number: u32,
) -> Result<(Judgement, Chain, Answers), Failure> {
    let workspace = scene.workspace.root().to_string_lossy().into_owned();
    let (plan, policy) = (plan.plan.clone(), plan.policy.clone());
    let judging = spawn_blocking(move || {
        let evidence = RunEvidence {
            workspace: &workspace,
            plan: &plan,
            todos: &plan.todos,
            policy: &policy,
            receipts: chain.receipts(),
            wrote_before: false,
            round: number,
            final_text: "",
            authored_text: None,
            answers: &answers,
        };
        (evidence.judge(), chain, answers)
    });
    let (judgement, chain, answers) = judging.await.map_err(defect)?;
    Ok((judgement.map_err(Fault::from)?, chain, answers))
}

/// What the checks have beside the workspace.
fn additions(plan: &VerifyPlan) -> Additions {
    let files = |check: &AcceptCheck| {
        let files = check.overlay.files()?;
        Some((check.overlay.digest().to_owned(), Arc::clone(files)))
    };
    let overlays = plan.plan.verify.iter().filter_map(files).collect();
    Additions { overlays, canary: plan.policy.canary }
}

/// The workspace now, without its ignored paths.
async fn snapshot(round: &Arc<Round>, base: &Arc<Manifest>) -> Result<Arc<Manifest>, Failure> {
    let taken = round.snapshot().await.map_err(|error| failed(&error))?;
    Ok(taken.unwrap_or_else(|| Arc::clone(base)))
}
