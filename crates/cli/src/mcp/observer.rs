//! What the tools do. The agent works with its own tools in the workspace; the runner observes it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use surety_common::domain::problem::Warning;
use surety_executor::round::Begun;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use super::arguments::{Ask, Propose, ReportStep, within};
use super::judged::{judged_text, next_of, said_again, summary};
use crate::contract::{
    Contract, Judgement, Judging, LastRound, Opening, Question, Reader, Report, Store, Wanted,
    What, as_json, as_text, judge_contract, now,
};
use crate::failure::{Code, Failure};
use crate::output::note;
use crate::text::warning_line;
use crate::verify::{Document, compare};

/// What opens a contract that no person opened.
const OPENED_BY: &str = "surety mcp";
/// The most questions of one contract.
const MOST_QUESTIONS: usize = 100;
/// The longest text that a tool answers, in bytes.
const MOST_ANSWER: usize = 64 << 10;

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// For the agent to read.
    pub(super) text: String,
    /// For programs.
    pub(super) value: Value,
}

/// The right to carry out a round, until it is dropped.
pub(super) type OneRound = OwnedMutexGuard<()>;

/// The contract of one workspace, and what may be done under it.
#[derive(Debug)]
pub struct Observer {
    opening: Opening,
    allowed: Option<String>,
    store: Store,
    /// One round at a time: two would share the processors and the workspace.
    round: Arc<Mutex<()>>,
    /// Ends every round.
    ended: CancellationToken,
    /// Whether a tool was called.
    used: AtomicBool,
    /// Shows that a server of the contract lives.
    _served: File,
}

impl Observer {
    /// Opens the contract of a workspace, or continues the open one. `allowed` are addresses that checks may ask.
    ///
    /// # Errors
    /// The workspace cannot be used; there is no such revision; the checks do not read.
    pub async fn open(
        opening: Opening,
        wanted: &Wanted,
        allowed: Option<String>,
        ended: CancellationToken,
    ) -> Result<Self, Failure> {
        let scene = opening.scene().await?;
        let store = opening.store(&scene)?;
        let served = store.serve()?;
        let (contract, warnings) = opening.open(&scene, &store, wanted, OPENED_BY).await?;
        warnings.iter().for_each(|warning| note(&warning_line(&warning.clone().into())));
        note(&said(&contract, wanted));
        let (round, used) = (Arc::default(), AtomicBool::new(false));
        Ok(Self { opening, allowed, store, round, ended, used, _served: served })
    }

    /// Ends every round; later ones are refused.
    #[must_use]
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// The contract, with the last round and whether the workspace is still what its verdict is about.
    pub(super) async fn status(&self) -> Result<Answer, Failure> {
        self.used.store(true, Ordering::Relaxed);
        let contract = self.store.open()?;
        let mut answer = self.answer(&contract)?;
        let round = self.store.last_round().unwrap_or_else(|failure| {
            note(&failure.to_text());
            None
        });
        let Some(round) = round else { return Ok(answer) };
        let found = match compare(&self.opening.folder, &round.verdict.workspace, None).await {
            Ok(comparison) => Some(comparison.found),
            Err(failure) => {
                note(&failure.to_text());
                None
            }
        };
        let still = |digest: &String| found.as_ref().map(|found| found == digest);
        if let Some(decided) = &contract.verdict {
            answer.value["verdict"]["still"] = json!(still(&decided.digest));
        }
        let still = still(&round.verdict.workspace.digest);
        answer.text = bounded(format!("{}\n{}", answer.text, said_again(&round, still)));
        let LastRound { at, verdict, file } = round;
        let mut last = summary(&verdict, file.as_deref());
        last["at"] = json!(at);
        last["still"] = json!(still);
        answer.value["last_round"] = last;
        Ok(answer)
    }

    pub(super) fn propose(&self, proposed: Propose) -> Result<Answer, Failure> {
        let text = proposed.into_plan()?;
        // The verdict of a round is about the checks that it began with.
        let _one = self.one_round()?;
        let (contract, warnings) = self.change(|contract| {
            let (_, warnings) = contract.propose(&text)?;
            Ok((contract.clone(), warnings))
        })?;
        let mut answer = self.answer(&contract)?;
        let lines = warnings.into_iter().map(|warning: Warning| warning_line(&warning.into()));
        let lines: Vec<String> = lines.collect();
        answer.text = bounded([vec![answer.text], lines.clone()].concat().join("\n"));
        answer.value["warnings"] = json!(lines);
        Ok(answer)
    }

    pub(super) fn report(&self, reported: ReportStep) -> Result<Answer, Failure> {
        let ReportStep { step_id, outcome, note } = reported;
        within("step_id", &step_id)?;
        within("note", &note)?;
        let contract = self.change(|contract| {
            contract.report(&step_id, Report { outcome, note, at: now() })?;
            Ok(contract.clone())
        })?;
        let mut answer = self.answer(&contract)?;
        answer.text = format!("recorded as a claim, which decides nothing\n{}", answer.text);
        Ok(answer)
    }

    /// Keeps a question until it has an answer.
    pub(super) fn asked(&self, ask: &Ask) -> Result<u32, Failure> {
        ask.check()?;
        self.change(|contract| {
            if contract.questions.len() >= MOST_QUESTIONS {
                let message =
                    format!("the contract has {MOST_QUESTIONS} questions, which is the most");
                return Err(Failure::new(
                    Code::ValueInvalid,
                    message,
                    "Decide by yourself, or stop.",
                ));
            }
            let id = u32::try_from(contract.questions.len()).unwrap_or(u32::MAX).saturating_add(1);
            contract.questions.push(Question {
                id,
                question: ask.question.clone(),
                options: ask.options.clone(),
                asked_at: now(),
                answer: None,
                answered_by: None,
            });
            Ok(id)
        })
    }

    /// Records what a person answered in a form of the client.
    pub(super) fn answered(&self, id: u32, answer: &str) -> Result<Answer, Failure> {
        within("answer", answer)?;
        self.change(|contract| contract.answer(id, answer, "a form of the client"))?;
        let text = format!("the person answered question {id}: {answer}");
        Ok(Answer { text, value: json!({"id": id, "answered": true, "answer": answer}) })
    }

    /// What an agent learns of a question that has no answer yet.
    #[must_use]
    pub(super) fn unanswered(id: u32, why: &str) -> Answer {
        let how = format!("surety contract answer {id} TEXT");
        let text = format!(
            "question {id} waits for a person: {why}. A person answers with `{how}` in the workspace; surety_status \
             shows the answer under waits. Go on with what does not depend on it, or stop."
        );
        Answer { text, value: json!({"id": id, "answered": false, "why": why, "how": how}) }
    }

    /// Carries out a round, to which `_one` is the right; `writes` says whether it makes a verdict.
    pub(super) async fn judge(
        &self,
        _one: OneRound,
        writes: bool,
        cancel: &CancellationToken,
        listener: Option<UnboundedSender<Begun>>,
    ) -> Result<Answer, Failure> {
        self.used.store(true, Ordering::Relaxed);
        // Before anything is read: a contract without checks costs nothing.
        self.store.open()?.plan()?;
        let scene = self.opening.scene().await?;
        let (token, cancel, ended) = (scene.cancel.clone(), cancel.clone(), self.ended.clone());
        let watching = tokio::spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = ended.cancelled() => {}
            }
            token.cancel();
        });
        let judged = judge_contract(Judging {
            scene: &scene,
            store: &self.store,
            allowed: self.allowed.as_deref(),
            listener,
            client: &self.opening.client,
            writes,
        });
        let judged = judged.await;
        watching.abort();
        let Judgement { verdict, file } = judged?;
        let (verdict, file) = (verdict.for_participant(), file.as_deref());
        let mut value = summary(&verdict, file);
        value["what_next"] = json!(next_of(&verdict, file));
        Ok(Answer { text: bounded(judged_text(&verdict, file)), value })
    }

    /// The right to carry out a round, or to change what one is about.
    pub(super) fn one_round(&self) -> Result<OneRound, Failure> {
        Arc::clone(&self.round).try_lock_owned().map_err(|_| {
            let message = "a round of this workspace is at work";
            let advice = "Wait for its answer, or cancel it; surety_status shows what it came to.";
            Failure::new(Code::RoundRunning, message, advice)
        })
    }

    /// Says, and records, that a connection ended without a verdict about what is there.
    pub async fn disconnected(&self) {
        match self.left().await {
            Ok(None) => {}
            Ok(Some(why)) => {
                note(&format!("surety: the connection ended without a verdict: {why}"))
            }
            Err(failure) => note(&failure.to_text()),
        }
    }

    /// Why no verdict is about the workspace as it is; none where one is.
    async fn left(&self) -> Result<Option<String>, Failure> {
        let Some(contract) = self.store.load()? else { return Ok(None) };
        let why = match &contract.verdict {
            None => "the contract has none".to_owned(),
            Some(decided) => {
                let read = Document::read(decided.file.as_ref())
                    .and_then(|file| Ok(file.verdict()?.workspace));
                match read.ok().filter(|recorded| recorded.digest == decided.digest) {
                    Some(recorded) => {
                        if compare(&self.opening.folder, &recorded, None).await?.holds() {
                            return Ok(None);
                        }
                        "the workspace changed after the last one".to_owned()
                    }
                    None => "the file of the last one is gone or was changed".to_owned(),
                }
            }
        };
        // A client that only looks whether the server starts is no agent that stopped. But the last verdict must not stand
        // for a workspace that was changed after it, by an agent that used its own tools alone.
        let is_used = self.used.load(Ordering::Relaxed);
        if is_used || contract.verdict.is_some() {
            self.store.change(|contract| {
                let last = contract.events.last();
                let is_said = last.is_some_and(|it| it.what == What::EndedWithoutVerdict);
                if is_used || !is_said {
                    contract.note(What::EndedWithoutVerdict, &why);
                }
                Ok(())
            })?;
        }
        Ok(Some(why))
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Contract) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.used.store(true, Ordering::Relaxed);
        self.store.change(change)
    }

    fn answer(&self, contract: &Contract) -> Result<Answer, Failure> {
        let value = as_json(contract, Reader::Agent)?;
        let next = value.get("next").map(Value::to_string).unwrap_or_default();
        let text = format!("{}\nnext: {next}", as_text(contract, Reader::Agent)?);
        Ok(Answer { text: bounded(text), value })
    }
}

/// What a person reads at the start.
fn said(contract: &Contract, wanted: &Wanted) -> String {
    let mut line = format!(
        "surety: the contract of {} compares with {}, since {}",
        contract.workspace,
        contract.start(),
        contract.opened_at
    );
    let base = wanted.base.as_ref().is_some_and(|base| *base != contract.base);
    let path = contract.checks.as_ref().map(|checks| &checks.path);
    let checks = wanted.checks.as_ref().is_some_and(|named| Some(named) != path);
    if base || checks {
        line.push_str(
            "; it stays as it was opened: `surety contract new` opens one with other settings",
        );
    }
    if let Some(why) = contract.unused_checks() {
        line.push_str(&format!("\nsurety: {why}"));
    }
    line
}

/// At most [`MOST_ANSWER`] bytes of a text.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > MOST_ANSWER {
        let mut end = MOST_ANSWER;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("\n(cut; the verdict file and `surety contract show` have the rest)");
    }
    text
}
