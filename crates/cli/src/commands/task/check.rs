//! `surety task check FILE`

use std::path::PathBuf;

use clap::Args;
use surety_common::domain::json;
use surety_common::domain::toolchain::{
    Delivery, Forge, Language, MAX_DELIVERY, Reading, Rules, ToolchainEvent, Withdrawal,
};
use surety_planner::task::{HandedTask, TaskType, TemplateError, Templates, Toolchain};
use uuid::Uuid;

use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::plan_file::read_text_within;
use crate::text::harmless;

/// The delivery to be checked.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The body of the delivery, JSON; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The forge: gitea, forgejo or github.
    #[arg(long, value_parser = forge)]
    forge: Forge,

    /// The event, as the forge's header names it, such as `pull_request`.
    #[arg(long)]
    event: String,

    /// The language of the instructions: en or zh.
    #[arg(long, default_value = "en", value_parser = language)]
    language: Language,

    /// An account of Surety itself: its marked comments are ignored. Repeat it for more.
    #[arg(long, value_name = "ACCOUNT")]
    own: Vec<String>,

    /// A folder with templates in place of the built-in ones, as LANGUAGE/PART.j2.
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
}

pub(super) fn forge(text: &str) -> Result<Forge, String> {
    let known = || Forge::ALL.iter().map(|forge| forge.as_str()).collect::<Vec<_>>().join(", ");
    Forge::from_text(text).ok_or_else(|| format!("no forge; use one of {}", known()))
}

pub(in crate::commands) fn language(text: &str) -> Result<Language, String> {
    Language::from_text(text).ok_or_else(|| "no language; use en or zh".to_owned())
}

impl Check {
    pub(super) fn run(self, output: Output) -> Result<Exit, Failure> {
        let check = self;
        let templates = Templates::load(check.templates.as_deref()).map_err(|error| {
            Failure::new(Code::FileUnusable, error.to_string(), "Correct or remove the template.")
        })?;
        let body = read_text_within(&check.file, u64::try_from(MAX_DELIVERY).unwrap_or(u64::MAX))?;
        let delivery = Delivery { forge: check.forge, event: &check.event, body: &body };
        let rules = Rules { own: check.own, ..Rules::default() };
        match delivery.read(&rules)? {
            Reading::Ignored(reason) | Reading::Withdrawn(Withdrawal { reason, .. }) => {
                let value = serde_json::json!({"ignored": reason.as_str()});
                print(output, &value, || format!("ignored: {reason}"))?;
            }
            Reading::Tasks(events) => {
                for event in &events {
                    show(output, &templates, event, check.language)?;
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn show(
    output: Output,
    templates: &Templates,
    event: &ToolchainEvent,
    language: Language,
) -> Result<(), Failure> {
    let unusable = |error: TemplateError| {
        Failure::new(Code::FileUnusable, error.to_string(), "Correct the template.")
    };
    let mut payload = event.payload(language);
    templates.guide(&mut payload, language).map_err(unusable)?;
    // No run exists yet, so the instructions name the nil id.
    let task = HandedTask { run_id: Uuid::nil(), payload: &payload, language };
    let instructions = Toolchain.instructions(templates, &task).map_err(unusable)?;
    let value = serde_json::json!({
        "event_type": payload.event_type,
        "action_type": payload.action_type,
        "assignee": event.assignee.to_string(),
        "from": payload.from,
        "source": payload.source,
        "happened_at": event.happened_at,
        "key": event.key,
        "steps": payload.steps,
        "context": payload.context,
        "instructions": instructions,
    });
    print(output, &value, || {
        let (event_type, action) = (&payload.event_type, &payload.action_type);
        let heading = format!("task: {event_type} ({action}) for {}", event.assignee);
        format!("{heading}\n\n{}", harmless(&instructions))
    })
}

fn print(
    output: Output,
    value: &serde_json::Value,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let value = json::parse(&value.to_string())
        .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
    output.either(&value.value, text)
}
