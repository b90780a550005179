//! `surety verify --hook`

use std::io::stdin;

use serde_json::Value;

use super::verify::Verify;
use crate::contract::{Judging, Store, What, judge_contract};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::{Output, note};
use crate::verify::{DEFAULT_PLAN, HeldUp, HookInput, Scene, Traces, VerdictFile, as_text};

impl Verify {
    /// Answers the stop hook of an agent: it goes on while the verdict refuses, and at most so often.
    pub(super) async fn answer_hook(&self, scene: &Scene, output: Output) -> Result<Exit, Failure> {
        let input = HookInput::read(stdin().lock())?;
        if !input.is_by_choice() {
            return said(output, &input.stop(None));
        }
        let data = DataFolder::choose(&self.client.folder).ok();
        let store = data.as_ref().map(|data| Store::of(data, scene.workspace.root()));
        let workspace = scene.workspace.root().to_string_lossy().into_owned();
        let held_up = HeldUp::of(&input, &workspace, data.as_ref(), self.hook_limit);
        let why = match self.hook_verdict(scene, store.as_ref()).await {
            Ok(verdict) if verdict.accepted => {
                held_up.clear();
                return said(output, &input.stop(None));
            }
            Ok(verdict) => {
                let verdict = verdict.for_participant();
                format!("The verdict of Surety refuses the work.\n{}", as_text(&verdict))
            }
            Err(failure) if self.asks_for_nothing(scene, store.as_ref(), &failure) => {
                note(&failure.to_text());
                return said(output, &input.stop(None));
            }
            Err(failure) => format!("Surety reached no verdict.\n{}", failure.to_text()),
        };
        if held_up.so_far() < self.hook_limit && held_up.again() {
            return said(output, &input.go_on(&why));
        }
        held_up.clear();
        let stopped = format!("surety: the agent stopped without an accepted verdict. {why}");
        note(&stopped);
        if let Some(store) = store
            && store.path().exists()
        {
            store.change(|contract| {
                contract.note(What::StoppedRefused, "a hook held the agent up as often as it may");
                Ok(())
            })?;
        }
        said(output, &input.stop(Some(&stopped)))
    }

    /// The verdict of the open contract, and without one that of a plain verification.
    async fn hook_verdict(
        &self,
        scene: &Scene,
        store: Option<&Store>,
    ) -> Result<VerdictFile, Failure> {
        if let Some(store) = store
            && self.plan.is_none()
            && self.base.is_none()
            && store.load()?.is_some()
        {
            let judging = Judging {
                scene,
                store,
                allowed: self.probe.gate_probe_allow.as_deref(),
                listener: None,
                client: &self.client,
                writes: true,
            };
            return judge_contract(judging).await.map(|judgement| judgement.verdict);
        }
        let participant = Traces { is_unconfined: true, lives: true, ..Traces::default() };
        self.judged(scene, participant).await.map(|(verdict, _)| verdict)
    }

    /// Whether the failure says that a folder without a contract holds its agents to nothing. A checks file that is
    /// not committed says otherwise.
    fn asks_for_nothing(&self, scene: &Scene, store: Option<&Store>, failure: &Failure) -> bool {
        let is_named = self.plan.is_some() || self.base.is_some();
        if !is_named && store.is_some_and(|store| store.path().exists()) {
            return false;
        }
        let Failure::Said(said) = failure else { return false };
        let has_file = scene.workspace.root().join(DEFAULT_PLAN).symlink_metadata().is_ok();
        let is = |code: Code| said.code == code.as_str();
        is(Code::ChecksMissing)
            || is(Code::PlanMissing) && !has_file
            || is(Code::RevisionUnknown) && !is_named && !has_file
    }
}

fn said(output: Output, answer: &Value) -> Result<Exit, Failure> {
    output.line(&answer.to_string())?;
    Ok(Exit::Done)
}
