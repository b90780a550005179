//! What an agent decides from: the rows of its run, as its context.

use crate::context::{
    Left, Message, PastTurn, Role, Scene, ToolLine, is_complete, messages, observation, turns,
};
use crate::tool::{Registry, ToolSpec, Toolbox};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use surety_common::config::Prompt;
use surety_common::domain::execution::{GivenAnswer, StepProgress};
use surety_common::domain::fault::Fault;
use surety_common::domain::journal::{Event, Output};
use surety_common::domain::messages::Normal;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::run::RunRecord;
use surety_common::domain::step::StepState;
use surety_common::domain::todo::Todo;
use surety_common::domain::toolchain::is_task_namespace;
use surety_common::store::{self, WaitLease};
use surety_common::telemetry;
use surety_common::wire::v1;
use surety_common::wire::value::timestamp;

/// The largest output of which parts are shown. Of a larger one the size is.
const SHOWN_BYTES: u64 = 16 << 20;

/// The tools, and where the folders of runs are.
pub(crate) struct Workshop {
    /// The tools.
    pub(crate) tools: Arc<Toolbox>,
    /// The folder of the workspaces of runs that name none.
    pub(crate) workspaces: PathBuf,
    /// The rules that drivers are shown.
    pub(crate) prompt: Prompt,
}

/// A step with the turns that its driver is shown.
pub(crate) struct StepScene {
    /// The run.
    pub(crate) record: RunRecord,
    /// The step, by its index in the plan.
    pub(crate) index: usize,
    turns: Vec<PastTurn>,
    /// What the newest call of each tool came to, by call id.
    observations: HashMap<String, String>,
    /// When the step's time is over, while the participant holds its lease.
    step_until: Option<DateTime<Utc>>,
    /// What the assignee of a task is handed since a reminder, in place of the description that the plan has.
    reminded: Option<String>,
}

impl StepScene {
    /// Reads the turns of a step.
    ///
    /// # Errors
    /// `database_unavailable`
    pub(crate) async fn load(
        pool: &PgPool,
        record: RunRecord,
        index: usize,
    ) -> Result<Self, Fault> {
        let progress = record.execution.step(index).cloned().unwrap_or_default();
        if progress.rounds == 0 {
            let (turns, observations) = (Vec::new(), HashMap::new());
            let step_until = step_until(&record, index);
            let reminded = reminded(pool, &record).await?;
            return Ok(Self { record, index, turns, observations, step_until, reminded });
        }
        let step_id = step_of(&record, index).id.clone();
        let enough = |events: &[Event]| is_complete(events, &step_id, progress.attempt);
        let events = store::latest_events(pool, record.spec.id, enough).await?;
        Self::of(pool, record, index, &events).await
    }

    /// The scene from events that hold the turns of the step.
    ///
    /// # Errors
    /// `database_unavailable`
    pub(super) async fn of(
        pool: &PgPool,
        record: RunRecord,
        index: usize,
        events: &[Event],
    ) -> Result<Self, Fault> {
        let progress = record.execution.step(index).cloned().unwrap_or_default();
        let step_id = step_of(&record, index).id.clone();
        let turns = turns(events, &step_id, progress.attempt);
        let mut newest: HashMap<&str, &PastTurn> = HashMap::new();
        for turn in &turns {
            if let Some(tool) = turn.tool() {
                newest.insert(tool, turn);
            }
        }
        let mut observations = HashMap::new();
        for turn in newest.into_values() {
            if let Some(receipt) = &turn.receipt {
                let text = text_of(pool, turn.output.as_ref()).await?;
                let shown = observation(receipt, turn.output.as_ref(), text.as_deref());
                observations.insert(receipt.call_id.clone(), shown.text);
            }
        }
        let step_until = step_until(&record, index);
        let reminded = reminded(pool, &record).await?;
        Ok(Self { record, index, turns, observations, step_until, reminded })
    }

    /// The scene under a lease, before which the wait may have been without one.
    pub(super) fn under(self, lease: &WaitLease) -> Self {
        Self { step_until: lease.step_until.or(self.step_until), ..self }
    }

    /// The step's state in the row.
    pub(crate) fn progress(&self) -> StepProgress {
        self.record.execution.step(self.index).cloned().unwrap_or_default()
    }

    /// The step in the plan, as it is handed.
    pub(crate) fn step(&self) -> PlanStep {
        let step = step_of(&self.record, self.index).clone();
        match &self.reminded {
            Some(instructions) => PlanStep { description: instructions.clone(), ..step },
            None => step,
        }
    }

    /// The plan, with the step as it is handed.
    fn plan(&self) -> Cow<'_, Plan> {
        let Some(plan) = self.record.plan.as_deref() else { return Cow::Owned(Plan::default()) };
        if self.reminded.is_none() {
            return Cow::Borrowed(plan);
        }
        let mut plan = plan.clone();
        if let Some(step) = plan.steps.get_mut(self.index) {
            *step = self.step();
        }
        Cow::Owned(plan)
    }
}

/// The instructions of a task that was handed again: each reminder stands before them. The plan of its run never changes.
async fn reminded(pool: &PgPool, record: &RunRecord) -> Result<Option<String>, Fault> {
    match is_task_namespace(&record.spec.namespace) {
        true => Ok(store::reminded_instructions(pool, record.spec.id).await?),
        false => Ok(None),
    }
}

/// The text of an output, where it is small enough to be looked through.
pub(super) async fn text_of(
    pool: &PgPool,
    output: Option<&Output>,
) -> Result<Option<String>, Fault> {
    match output {
        Some(output) if output.bytes <= SHOWN_BYTES => Ok(store::output_text(pool, output).await?),
        Some(_) | None => Ok(None),
    }
}

/// When the time of a step is over whose wait was never without a lease.
fn step_until(record: &RunRecord, index: usize) -> Option<DateTime<Utc>> {
    let execution = &record.execution;
    execution.step_until(execution.step(index)?.wait.as_deref()?)
}

fn step_of(record: &RunRecord, index: usize) -> &PlanStep {
    static NOTHING: PlanStep = PlanStep {
        id: String::new(),
        description: String::new(),
        dependencies: Vec::new(),
        tools_expected: Vec::new(),
        outputs_expected: Vec::new(),
        verify: Vec::new(),
        done_when: String::new(),
        evidence: surety_common::domain::plan::Evidence::Required,
        script: Vec::new(),
        write_scope: Vec::new(),
        confirm_tools: Vec::new(),
    };
    record.plan.as_deref().and_then(|plan| plan.steps.get(index)).unwrap_or(&NOTHING)
}

/// What a step's next turn is decided from.
struct Shown {
    messages: Vec<Message>,
    tools: Vec<v1::Tool>,
    todos: Vec<Todo>,
    open_steps: usize,
    left: Left,
}

/// The rules and the tools of a step without limits: what every conversation of a step begins with.
pub(crate) fn first_words(workshop: &Workshop) -> String {
    let registry = workshop.tools.of_all();
    let lines: Vec<ToolLine> =
        registry.allowed(&[]).iter().map(|spec| line_of(registry, spec, false)).collect();
    let scene = Scene {
        rules: &workshop.prompt.text,
        goal: "",
        plan: &Plan::default(),
        todos: &[],
        states: &[],
        step: &PlanStep::default(),
        tools: &lines,
        turns: &[],
        observations: &HashMap::new(),
        called: &BTreeMap::new(),
        notice: "",
        hint: "",
        answers: &[],
        left: Left::default(),
    };
    let first = messages(&scene).messages.into_iter().next();
    first.map(|message| message.text).unwrap_or_default()
}

/// The conversation of a step's next turn.
pub(crate) fn step_messages(scene: &StepScene, workshop: &Workshop) -> Vec<Message> {
    shown(scene, workshop).messages
}

fn shown(scene: &StepScene, workshop: &Workshop) -> Shown {
    let (step, progress) = (scene.step(), scene.progress());
    let RunRecord { spec, execution, .. } = &scene.record;
    let run_policy = &spec.policy;
    let registry = workshop.tools.of(&spec.namespace);
    let allowed = registry.allowed(&step.tools_expected);
    let confirmed = |spec: &ToolSpec| {
        registry.needs_confirmation(spec, &run_policy.confirm, &step.confirm_tools)
    };
    let line = |spec: &&ToolSpec| line_of(&registry, spec, confirmed(spec));
    let lines: Vec<ToolLine> = allowed.iter().map(line).collect();
    let states: Vec<StepState> = execution.step_states().collect();
    let plan = scene.plan();
    let todos = execution.todos.current(&plan.todos);
    let limits = &spec.limits;
    let left = Left::of(execution, &progress, limits);
    let notice = progress.wait.as_deref().map_or("", |wait| wait.question.as_str());
    let Normal { messages, changed, .. } = messages(&Scene {
        rules: &workshop.prompt.text,
        goal: &spec.goal,
        plan: &plan,
        todos: &todos,
        states: &states,
        step: &step,
        tools: &lines,
        turns: &scene.turns,
        observations: &scene.observations,
        called: &progress.called,
        notice,
        hint: &progress.hint,
        answers: &execution.counters.answers,
        left,
    });
    if changed {
        telemetry::count_normalized();
    }
    let tools = { allowed.into_iter() }
        .map(|spec| crate::tool::shown(&registry, spec, confirmed(spec)))
        .collect();
    let open_steps = states.iter().filter(|state| **state != StepState::Done).count();
    Shown { messages, tools, todos, open_steps, left }
}

/// The context of a step's next turn.
pub(crate) fn step_context(scene: &StepScene, workshop: &Workshop) -> v1::StepContext {
    let Shown { messages, tools, todos, open_steps, left } = shown(scene, workshop);
    let (mut step, progress) = (scene.step(), scene.progress());
    step.verify.retain(|check| !check.is_hidden());
    let spec = &scene.record.spec;
    let limits = &spec.limits;
    let answers = scene.record.execution.counters.answers.iter().map(earlier_answer);
    let workspace = match spec.workspace.as_str() {
        // Each executor has a clone of its own.
        "" if spec.repository.is_some() => String::new(),
        "" => workshop.workspaces.join(spec.id.to_string()).to_string_lossy().into_owned(),
        named => named.to_owned(),
    };
    v1::StepContext {
        goal: spec.goal.clone(),
        step: Some(step.into()),
        turn: progress.rounds.saturating_add(1),
        tools,
        messages: messages.into_iter().map(message).collect(),
        workspace,
        rounds_left: left.rounds,
        tool_calls_left: left.tool_calls,
        run_rounds_left: left.run_rounds,
        corrections_left: left.corrections,
        step_deadline_at: scene.step_until.map(timestamp),
        run_deadline_at: scene.record.execution.deadline_at.map(timestamp),
        tokens_left: left.tokens,
        cost_micros_left: left.cost_micros,
        repairs_left: left.repairs,
        replans_left: left.replans,
        answers: answers.collect(),
        steps_remaining: u32::try_from(open_steps).unwrap_or(u32::MAX),
        todos: todos.into_iter().map(Into::into).collect(),
        turn_tokens: limits.token_budget.map(|_| progress.reserved.tokens),
        turn_cost_micros: limits.cost_budget_micros.map(|_| progress.reserved.cost_micros),
    }
}

fn earlier_answer(given: &GivenAnswer) -> v1::EarlierAnswer {
    let GivenAnswer { step_id, question, answer, by, .. } = given.clone();
    v1::EarlierAnswer { step_id, question, answer, by }
}

fn line_of(registry: &Registry, spec: &ToolSpec, is_confirmed: bool) -> ToolLine {
    ToolLine {
        name: spec.name.clone(),
        description: spec.description.clone(),
        schema: spec.input_schema.to_string(),
        sample: spec.return_sample.to_string(),
        is_confirmed,
        is_from_outside: registry.outsider(&spec.name).is_some(),
    }
}

fn message(message: Message) -> v1::ContextMessage {
    let role = match message.role {
        Role::System => v1::ContextRole::System,
        Role::User => v1::ContextRole::User,
        Role::Assistant => v1::ContextRole::Assistant,
    };
    v1::ContextMessage { role: role.into(), text: message.text }
}
