//! The operator's rules for tasks, checked when they are loaded.

use super::{HandedTask, TASK_TYPES, TaskType, TemplateError, Templates, find_task_type};
use globset::{Glob, GlobMatcher};
use std::collections::BTreeMap;
use surety_common::config::{AddedStepConfig, DEFAULT_REMINDER, ToolchainConfig};
use surety_common::domain::problem::Problem;
use surety_common::domain::toolchain::{
    ActionType, Compatibility, EventType, Language, MAX_STEPS, OwnAccount, RiskRules, TaskPayload,
    ToolchainEvent,
};
use surety_common::store::Retention;
use uuid::Uuid;

/// Seconds of an hour.
const HOUR_S: u64 = 3600;

/// Why the rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskRulesError {
    /// A template or a step is not usable.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A glob does not compile.
    #[error("--toolchain-file (SURETY_TOOLCHAIN_FILE): {0}")]
    Risk(Problem),
    /// A key of the file has no effect, or a value is unusable.
    #[error("{place} of --toolchain-file (SURETY_TOOLCHAIN_FILE) {why}")]
    Key {
        /// The key.
        place: String,
        /// What is wrong, and what to do.
        why: String,
    },
}

/// The rules of a planner.
pub struct TaskRules {
    config: ToolchainConfig,
    templates: Templates,
    /// The names of the templates of steps, by action and language.
    steps: BTreeMap<(ActionType, Language), Vec<String>>,
    added: Vec<AddedStep>,
    risk: RiskRules,
}

struct AddedStep {
    wanted: AddedStepConfig,
    repo: Option<GlobMatcher>,
    context: Vec<(String, GlobMatcher)>,
    names: BTreeMap<Language, String>,
}

impl TaskRules {
    /// Loads the rules, with their templates.
    ///
    /// # Errors
    /// [`TaskRulesError`]
    pub fn load(config: ToolchainConfig) -> Result<Self, TaskRulesError> {
        let mut templates = Templates::load(config.templates_dir.as_deref())?;
        for action in config.reminder_hours.keys().filter(|action| *action != DEFAULT_REMINDER) {
            action_of(&format!("reminder_hours.{action}"), action)?;
        }
        for task_type in config.retention_days.keys() {
            if find_task_type(task_type).is_none() {
                let known: Vec<_> = TASK_TYPES.iter().map(|kind| kind.name()).collect();
                let place = format!("retention_days.{task_type}");
                let why = format!("is no task type; choose one of {}", known.join(", "));
                return Err(TaskRulesError::Key { place, why });
            }
        }
        let mut steps = BTreeMap::new();
        for (action, texts) in &config.steps {
            let action = action_of(&format!("steps.{action}"), action)?;
            for (language, texts) in [(Language::En, &texts.en), (Language::Zh, &texts.zh)] {
                if texts.is_empty() {
                    continue;
                }
                let place = format!("steps.{action}.{language}");
                // The last step, which asks for the report, is added.
                if texts.len() >= MAX_STEPS {
                    let why = format!("has {} steps; at most {}", texts.len(), MAX_STEPS - 1);
                    return Err(TaskRulesError::Key { place, why });
                }
                let mut names = Vec::new();
                for (index, text) in texts.iter().enumerate() {
                    let name = format!("{place}[{index}]");
                    templates.add_step(&name, text)?;
                    names.push(name);
                }
                steps.insert((action, language), names);
            }
        }
        let added = config.added_steps.iter().enumerate();
        let added = added
            .map(|(index, wanted)| AddedStep::load(&mut templates, index, wanted))
            .collect::<Result<_, _>>()?;
        let risk = RiskRules::new(&config.risk.medium, &config.risk.high);
        Ok(Self { risk: risk.map_err(TaskRulesError::Risk)?, config, templates, steps, added })
    }

    /// The further accounts of the service, whose marked comments are ignored.
    pub(crate) fn own_accounts(&self) -> &[OwnAccount] {
        &self.config.own_accounts
    }

    /// The rules about the risk of changed files.
    pub(crate) fn risk(&self) -> &RiskRules {
        &self.risk
    }

    /// What counts as a report besides a report.
    pub(crate) fn compatibility(&self) -> Compatibility {
        Compatibility {
            any_output: self.config.report_any_output,
            any_long_comment: self.config.report_any_long_comment,
        }
    }

    /// The seconds without a report after which a task of this action is handed again; 0 for never. A task of the
    /// infrastructure is accepted without a report, so it has no clock unless the operator gives it one.
    pub(crate) fn remind_after_s(&self, action_type: &str) -> u64 {
        let needs_none = action_type == ActionType::InfrastructureFailure.as_str();
        if needs_none && !self.config.reminder_hours.contains_key(action_type) {
            return 0;
        }
        u64::from(self.config.reminder_hours_of(action_type)) * HOUR_S
    }

    /// How long ended tasks are kept, of the types that are kept for another time than runs: their namespaces and
    /// the times.
    pub(crate) fn retentions(&self, of_runs: Retention) -> Vec<(&'static str, Retention)> {
        let own = TASK_TYPES.iter().filter_map(|kind| {
            let named = self.config.retention_days.get(kind.name()).copied();
            let retention = Retention::of_days(named.or_else(|| kind.retention_days())?);
            (retention != of_runs).then(|| (kind.namespace(), retention))
        });
        own.collect()
    }

    /// The payload of an event's task, with the operator's steps.
    ///
    /// # Errors
    /// A step cannot be rendered with this payload.
    pub(crate) fn payload(
        &self,
        event: &ToolchainEvent,
        language: Language,
    ) -> Result<TaskPayload, TemplateError> {
        let mut payload = event.payload(language);
        self.templates.guide(&mut payload, language)?;
        // A notice has no steps, whatever the rules say.
        let Some(last) = payload.steps.pop() else { return Ok(payload) };
        if let Some(names) = self.steps.get(&(event.action_type(), language)) {
            payload.steps = self.rendered(names, &payload, language)?;
        }
        let fitting = self.added.iter().filter(|added| added.fits(&payload, &event.subject.repo));
        let names: Vec<String> = fitting.filter_map(|added| added.name(language)).collect();
        let added = self.rendered(&names, &payload, language)?;
        payload.steps.extend(added);
        payload.steps.truncate(MAX_STEPS - 1);
        payload.steps.push(last);
        Ok(payload)
    }

    fn rendered(
        &self,
        names: &[String],
        payload: &TaskPayload,
        language: Language,
    ) -> Result<Vec<String>, TemplateError> {
        let task = HandedTask { run_id: Uuid::nil(), payload, language };
        names.iter().map(|name| self.templates.render_step(name, &task)).collect()
    }

    /// What the assignee of a task of this type is handed.
    ///
    /// # Errors
    /// A template cannot be rendered with this payload.
    pub(crate) fn instructions(
        &self,
        kind: &dyn TaskType,
        task: &HandedTask<'_>,
    ) -> Result<String, TemplateError> {
        kind.instructions(&self.templates, task)
    }
}

impl AddedStep {
    fn load(
        templates: &mut Templates,
        index: usize,
        wanted: &AddedStepConfig,
    ) -> Result<Self, TaskRulesError> {
        let place = format!("added_steps[{index}]");
        if !wanted.action_type.is_empty() {
            action_of(&format!("{place}.action_type"), &wanted.action_type)?;
        }
        if !wanted.event_type.is_empty() && EventType::from_text(&wanted.event_type).is_none() {
            let place = format!("{place}.event_type");
            return Err(TaskRulesError::Key { place, why: unknown(EventType::ALL.iter()) });
        }
        let mut names = BTreeMap::new();
        for (language, text) in [(Language::En, &wanted.en), (Language::Zh, &wanted.zh)] {
            if text.trim().is_empty() && language == Language::Zh {
                continue;
            }
            let name = format!("{place}.{language}");
            templates.add_step(&name, text)?;
            names.insert(language, name);
        }
        let glob = |place: String, text: &str| match Glob::new(text) {
            Ok(glob) => Ok(glob.compile_matcher()),
            Err(error) => Err(TaskRulesError::Key { place, why: format!("is no glob: {error}") }),
        };
        let repo = match wanted.repo.as_str() {
            "" => None,
            text => Some(glob(format!("{place}.repo"), text)?),
        };
        let context = wanted
            .context
            .iter()
            .map(|(key, text)| Ok((key.clone(), glob(format!("{place}.context.{key}"), text)?)));
        let context = context.collect::<Result<_, TaskRulesError>>()?;
        Ok(Self { wanted: wanted.clone(), repo, context, names })
    }

    fn fits(&self, payload: &TaskPayload, repo: &str) -> bool {
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let has = |(key, glob): &(String, GlobMatcher)| match payload.context.get(key) {
            Some(serde_json::Value::String(text)) => glob.is_match(text),
            Some(serde_json::Value::Array(items)) => {
                items.iter().filter_map(|item| item.as_str()).any(|text| glob.is_match(text))
            }
            Some(_) | None => false,
        };
        is(&self.wanted.action_type, &payload.action_type)
            && is(&self.wanted.event_type, &payload.event_type)
            && self.repo.as_ref().is_none_or(|glob| glob.is_match(repo))
            && self.context.iter().all(has)
    }

    fn name(&self, language: Language) -> Option<String> {
        self.names.get(&language).or_else(|| self.names.get(&Language::En)).cloned()
    }
}

fn action_of(place: &str, text: &str) -> Result<ActionType, TaskRulesError> {
    ActionType::from_text(text).ok_or_else(|| TaskRulesError::Key {
        place: place.to_owned(),
        why: unknown(ActionType::ALL.iter()),
    })
}

fn unknown<T: ToString>(known: impl Iterator<Item = T>) -> String {
    let known: Vec<String> = known.map(|word| word.to_string()).collect();
    format!("is unknown; use one of {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::toolchain::{Delivery, Forge, Reading, Rules};

    fn rules(toml: &str) -> Result<TaskRules, TaskRulesError> {
        TaskRules::load(toml::from_str(toml).unwrap())
    }

    fn event() -> ToolchainEvent {
        let body = serde_json::json!({
            "action": "completed",
            "workflow_run": {
                "id": 9, "name": "tests", "conclusion": "failure", "head_branch": "fix/x",
                "head_sha": "0123456789012345678901234567890123456789",
                "actor": {"login": "alice"}, "updated_at": "2026-01-02T03:04:05Z",
                "html_url": "https://forge.example/o/r/actions/runs/9", "pull_requests": []
            },
            "repository": {"full_name": "o/r"}, "sender": {"login": "alice"}
        });
        let body = body.to_string();
        let delivery = Delivery { forge: Forge::Github, event: "workflow_run", body: &body };
        match delivery.read(&Rules::default()).unwrap() {
            Reading::Tasks(mut tasks) => tasks.remove(0),
            other @ (Reading::Ignored(_) | Reading::Withdrawn(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn steps_of_the_operator_replace_and_add_and_the_report_stays_the_last() {
        let rules = rules(
            "[steps.ci_failure]\nen = [\"Read the log of {{ context.branch }}.\"]\n\
             [[added_steps]]\naction_type = \"ci_failure\"\nrepo = \"o/*\"\nen = \"Ask {{ from }}.\"\n\
             [[added_steps]]\naction_type = \"mention\"\nen = \"Not here.\"\n\
             [[added_steps]]\nrepo = \"other/*\"\nen = \"Not here.\"\n\
             [[added_steps]]\nevent_type = \"ci_failed\"\ncontext = { branch = \"fix/*\" }\nen = \"Tell why.\"\n",
        )
        .unwrap();
        let steps = rules.payload(&event(), Language::En).unwrap().steps;
        assert_eq!(
            steps,
            ["Read the log of fix/x.", "Ask alice.", "Tell why.", "Submit the action report."]
        );
        // Without steps in Chinese the built-in ones stay, and added ones are the English ones.
        let chinese = rules.payload(&event(), Language::Zh).unwrap().steps;
        assert_eq!(chinese.len(), 6, "{chinese:?}");
    }

    #[test]
    fn rules_that_cannot_be_used_are_named() {
        for (toml, named) in [
            ("[reminder_hours]\nci_fail = 1", "reminder_hours.ci_fail"),
            ("[steps.nothing]\nen = [\"Act.\"]", "steps.nothing"),
            ("[steps.mention]\nen = [\"Act if needed.\"]", "if needed"),
            (
                "[steps.mention]\nen = [\"Act{% if context.x %} as needed{% endif %}.\"]",
                "as needed",
            ),
            ("[steps.mention]\nen = [\"Act.\"]\nzh = [\"参考此说明。\"]", "参考"),
            ("[steps.mention]\nen = [\" \"]", "renders to nothing"),
            ("[steps.mention]\nen = [\"{{ x\"]", "steps.mention.en[0]"),
            ("[[added_steps]]\naction_type = \"x\"\nen = \"Act.\"", "added_steps[0].action_type"),
            ("[[added_steps]]\nevent_type = \"x\"\nen = \"Act.\"", "added_steps[0].event_type"),
            ("[[added_steps]]\nrepo = \"[\"\nen = \"Act.\"", "added_steps[0].repo"),
            ("[[added_steps]]\nen = \"\"", "added_steps[0].en"),
            ("[risk]\nhigh = [\"[\"]", "risk.high[0]"),
        ] {
            let error = rules(toml).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(named), "{toml}: {error}");
        }
    }
}
