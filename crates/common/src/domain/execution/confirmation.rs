//! What people say about a step: confirmations of calls, and answers to questions.
//!
//! ```text
//!   confirm --> WAITING on an approver --approved--> READY, with the approved call --use_approval--> its intent
//!                        |--denied---> READY with a denial as observation | the step fails | the run ends
//!                        +--expired--> the run ends | as denied
//! ```
//!
//! An approval is stored in the step and used up by the change that records the intent of its call, so that no crash
//! loses or repeats it.

use super::draft::{Draft, Ending};
use super::{CallAnswer, GivenAnswer, Graph, Wait};
use crate::domain::confirmation::{
    AfterDenial, AfterExpiry, AnsweredAt, ApprovedCall, CallResolution, CallToConfirm,
    reply_receipt,
};
use crate::domain::journal::{Actor, Answer, Cause, Entry};
use crate::domain::machine::Refusal;
use crate::domain::receipt::counts_as_evidence;
use crate::domain::stop::StopReason;
use std::sync::Arc;
use uuid::Uuid;

/// The cause of the transition by which a step begins anew without the outcome of its call, because its report ends it.
pub const CALL_LEFT: &str =
    "the action report was submitted; the outcome of the call stays unknown";

/// What an approval is worth when its call is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// It is used up: the call may begin with this change.
    Used,
    /// There is none for this call: it was used before, or is of another one.
    Missing,
    /// Its time has passed, and what follows is done.
    Expired,
}

impl Draft {
    /// Records a person's answer about the call that a step waits for, as a receipt and as an event, and ends the
    /// wait. What it grants covers later calls from this change on.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when no step waits for this confirmation.
    pub fn resolve_call(
        &mut self,
        graph: &Graph,
        wait_id: Uuid,
        resolution: &CallResolution,
        after: AfterDenial,
    ) -> Result<(), Refusal> {
        let (index, call) = self.asked(wait_id).ok_or(Refusal::Meaningless)?;
        let at = self.answered_at(graph, index, wait_id);
        self.receipt(resolution.receipt(&call, at));
        let by = resolution.by.as_deref().unwrap_or(Answer::CLOCK);
        let answer = Answer { wait_id, by: Actor(Arc::from(by)), text: resolution.text() };
        self.journal(Entry::Answer(answer));
        if !resolution.approved {
            return self.go_on_denied(graph, index, &resolution.meaning(&call), after);
        }
        self.resume_step(graph, index, "the call was approved")?;
        let approved = ApprovedCall { call, by: by.to_owned() };
        self.execution.step_mut(index).ok_or(Refusal::Meaningless)?.approved =
            Some(Box::new(approved));
        self.execution.grants.extend(resolution.grant.clone());
        Ok(())
    }

    /// Ends every wait for a confirmation whose time has passed.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn expire_calls(&mut self, graph: &Graph, after: AfterExpiry) -> Result<(), Refusal> {
        let now = self.now;
        let over =
            |wait: &&Wait| wait.confirmation.as_deref().is_some_and(|call| call.expires_at <= now);
        let expired: Vec<Uuid> = self.execution.waits().filter(over).map(|wait| wait.id).collect();
        for wait_id in expired {
            // The end of the run for the one before ended this one, too.
            let Some((_, call)) = self.asked(wait_id) else { continue };
            let none =
                CallResolution { by: None, approved: false, comment: String::new(), grant: None };
            match after {
                AfterExpiry::Stop => self.stop(graph, expired_ending(&none.meaning(&call)))?,
                AfterExpiry::Denied(after) => self.resolve_call(graph, wait_id, &none, after)?,
            }
        }
        Ok(())
    }

    /// Uses up the approval of the call with this digest. Called in the change that records the call's intent.
    ///
    /// # Errors
    /// [`Refusal`] unless the step is running.
    pub fn use_approval(
        &mut self,
        graph: &Graph,
        index: usize,
        digest: &str,
        after: AfterExpiry,
    ) -> Result<Approval, Refusal> {
        let now = self.now;
        let step = self.execution.step_mut(index).ok_or(Refusal::Meaningless)?;
        let Some(approved) = step.approved.take() else { return Ok(Approval::Missing) };
        if approved.call.digest != digest {
            return Ok(Approval::Missing);
        }
        if now < approved.call.expires_at {
            if !approved.call.asked_by.is_empty() {
                *step.called.entry(approved.call.tool).or_default() += 1;
            }
            return Ok(Approval::Used);
        }
        let ApprovedCall { call, by } = *approved;
        let why = format!(
            "{by} approved the call of {}, and it had not begun by {}; it was not made",
            call.tool,
            call.expires_at.to_rfc3339()
        );
        match after {
            AfterExpiry::Stop => self.stop(graph, expired_ending(&why))?,
            AfterExpiry::Denied(after) => {
                self.remind(index, &why)?;
                self.go_on_denied(graph, index, &why, after)?;
            }
        }
        Ok(Approval::Expired)
    }

    /// Records a person's answer to the question of a step as a receipt and as an event, and ends the wait.
    ///
    /// # Errors
    /// [`Refusal`] unless the step waits.
    pub fn answer_step(
        &mut self,
        graph: &Graph,
        index: usize,
        answer: &Answer,
    ) -> Result<(), Refusal> {
        let asked = self.execution.step(index).and_then(|step| step.wait.as_deref());
        let digest = asked.ok_or(Refusal::Meaningless)?.digest_of_question();
        let at = self.answered_at(graph, index, answer.wait_id);
        let receipt = reply_receipt((&answer.by.0, &answer.text), &digest, at);
        // An answer about a call whose outcome is unknown answers no question of the driver.
        let is_asked = self.execution.step(index).is_some_and(|step| step.open_call.is_none());
        let place = u32::try_from(index).unwrap_or(u32::MAX);
        let proves = is_asked && counts_as_evidence(&receipt, place, self.execution.plan_revision);
        self.receipt(receipt);
        self.journal(Entry::Answer(answer.clone()));
        let step = self.execution.step_mut(index).ok_or(Refusal::Meaningless)?;
        step.proofs += u32::from(proves);
        let wait = step.wait.as_deref().filter(|_| is_asked);
        let question = wait.filter(|wait| wait.id == answer.wait_id).map(|it| it.question.clone());
        if let Some(question) = question {
            let answers = &mut self.execution.counters.answers;
            GivenAnswer::keep(answers, graph.id(index), &question, answer);
        }
        let about_call = CallAnswer::from_text(&answer.text).map(|word| (word, &answer.by));
        self.answer_call(index, about_call)?;
        self.resume_step(graph, index, "the question was answered")
    }

    /// Ends the question or the confirmation that a step waits for without an answer, because the step ends otherwise. A
    /// call without an outcome ends with its attempt, and is not made again.
    ///
    /// # Errors
    /// [`Refusal`] unless the step waits for one of them.
    pub fn withdraw_question(
        &mut self,
        graph: &Graph,
        index: usize,
        why: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        let step = self.execution.step(index).ok_or(Refusal::Meaningless)?;
        if !step.wait.as_deref().is_some_and(Wait::asks_about_step) {
            return Err(Refusal::Meaningless);
        }
        let has_open_call = step.open_call.is_some();
        self.resume_step(graph, index, if has_open_call { CALL_LEFT.into() } else { why.into() })?;
        if has_open_call {
            let hint = self.hint_of_next_attempt(index);
            self.begin_attempt(index, hint);
        }
        Ok(())
    }

    /// The call that is shown under a wait, and its step.
    fn asked(&self, wait_id: Uuid) -> Option<(usize, CallToConfirm)> {
        let steps = self.execution.steps.iter().enumerate();
        let mut waits = steps.filter_map(|(index, step)| Some((index, step.wait.as_deref()?)));
        let (index, wait) = waits.find(|(_, wait)| wait.id == wait_id)?;
        Some((index, wait.confirmation.as_deref()?.clone()))
    }

    pub(super) fn answered_at<'g>(
        &self,
        graph: &'g Graph,
        index: usize,
        wait_id: Uuid,
    ) -> AnsweredAt<'g> {
        AnsweredAt {
            step_index: index,
            step_id: graph.id(index),
            plan_revision: self.execution.plan_revision,
            wait_id,
            at: self.now,
        }
    }

    fn go_on_denied(
        &mut self,
        graph: &Graph,
        index: usize,
        why: &str,
        after: AfterDenial,
    ) -> Result<(), Refusal> {
        let waits = self.execution.step(index).is_some_and(|step| step.wait.is_some());
        match after {
            AfterDenial::Continue if waits => self.resume_step(graph, index, why.to_owned()),
            AfterDenial::Continue => Ok(()),
            AfterDenial::FailStep => self.fail_step(graph, index, why.to_owned()),
            AfterDenial::Stop => {
                let end = Ending {
                    stop_reason: StopReason::ConfirmationDenied,
                    user_message: format!("The run ended because {why}."),
                    internal_reason: format!("step {}", graph.id(index)),
                };
                self.stop(graph, end)
            }
        }
    }
}

fn expired_ending(why: &str) -> Ending {
    Ending {
        stop_reason: StopReason::ConfirmationExpired,
        user_message: format!("The run ended because {why}."),
        internal_reason: "confirm_ttl passed".to_owned(),
    }
}
