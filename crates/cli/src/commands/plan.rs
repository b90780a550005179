//! `surety plan check FILE` and `surety plan submit RUN FILE`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use surety_common::domain::check::{Author, CheckKind};
use surety_common::domain::check_inputs::{InputRules, assumptions};
use surety_common::domain::json::Value;
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::Plan as PlanData;
use surety_common::domain::problem::{Problem, Warning};
use surety_common::domain::run::Policy;
use surety_executor::tool::{Environment, missing_program, word_of_bash};
use surety_planner::plan::parse_plan;
use surety_planner::read_policy;

use super::replan::Submit;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::{Output, note};
use crate::plan_file::read_plan_file_at;
use crate::text::{count, one_line, warning_line};
use crate::wire_json::{object, text};

/// Checks a plan without a service, or submits one for a run.
#[derive(Debug, Args)]
pub struct Plan {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// Say whether a file contains a valid plan; print the plan and the corrections of the reader.
    Check {
        /// The plan file, YAML or JSON; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Submit a plan, or a patch of the plan, for a run that waits for one; `surety replan` makes a run at work wait.
    Submit(Box<Submit>),
}

impl Plan {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            PlanCommand::Check { file } => Self::check(&file, output),
            PlanCommand::Submit(submit) => submit.run(output).await,
        }
    }

    fn check(file: &Path, output: Output) -> Result<Exit, Failure> {
        let plan_file = read_plan_file_at(file, None)?;
        let Some(plan_text) = plan_file.plan_text else {
            return Err(Failure::new(
                Code::ValueInvalid,
                "the file contains no plan, only options",
                "A plan has at least `title` and `steps`.",
            ));
        };
        let default = Limits::default().max_plan_steps;
        let most = plan_file.limits.and_then(|limits| limits.max_plan_steps).unwrap_or(default);
        let read = parse_plan(&plan_text, Author::Submitter, most);
        match read {
            Ok((plan, mut warnings)) => {
                let policy = read_policy(plan_file.policy.unwrap_or_default())?;
                let rules = InputRules::new(&policy.protect, &policy.may_change)?;
                warnings.extend(assumptions(plan.placed_checks(), &rules));
                note_missing_programs(&plan, &policy);
                output.either(&accepted(&plan, &warnings), || accepted_text(&plan, &warnings))?;
                Ok(Exit::Done)
            }
            Err(problem) => {
                if output.json {
                    output.value(&refused(&problem))?;
                }
                Err(problem.into())
            }
        }
    }
}

/// Names the programs of checks, of checks of steps and of the lines that prepare their views, that this machine has not: the
/// executor may be another one.
fn note_missing_programs(plan: &PlanData, policy: &Policy) {
    let environment = Environment::of_process();
    let of_plan = plan.verify.iter().enumerate().map(|(at, it)| (format!("verify[{at}]"), it));
    let of_steps = plan.steps.iter().enumerate().flat_map(|(step, it)| {
        let place = move |at: usize| format!("steps[{step}].verify[{at}]");
        it.verify.iter().enumerate().map(move |(at, check)| (place(at), check))
    });
    let commands =
        of_plan.chain(of_steps).filter(|(_, check)| check.kind == CheckKind::CommandSuccess);
    let commands = commands.map(|(place, check)| (place, check.target.as_str()));
    let prepares = policy.prepare_lines().enumerate();
    let prepares = prepares.map(|(at, (_, line))| (format!("policy.prepare[{at}]"), line));
    for (place, line) in prepares.chain(commands) {
        // A path is one of the workspace, which is not known here.
        if let Some(program) = missing_program(line, &environment, |_| true) {
            let advice = word_of_bash(&program).unwrap_or("executors need it");
            note(&format!(
                "surety: {place} names the program {program:?}, which this machine has not; {advice}"
            ));
        }
    }
}

fn accepted(plan: &PlanData, warnings: &[Warning]) -> Value {
    object([
        ("ok", Value::Bool(true)),
        ("digest", text(plan.digest())),
        ("warnings", Value::Array(warnings.iter().map(warning_value).collect())),
        ("plan", plan.to_json()),
    ])
}

fn refused(problem: &Problem) -> Value {
    let field = problem.field.as_deref().map_or(Value::Null, text);
    let problem = object([
        ("code", text(problem.code.as_str())),
        ("field", field),
        ("message", text(&problem.message)),
    ]);
    object([("ok", Value::Bool(false)), ("problem", problem)])
}

fn warning_value(warning: &Warning) -> Value {
    object([
        ("code", text(warning.code.as_str())),
        ("field", warning.field.as_deref().map_or(Value::Null, text)),
        ("message", text(warning.message())),
    ])
}

fn accepted_text(plan: &PlanData, warnings: &[Warning]) -> String {
    let mut lines: Vec<_> =
        warnings.iter().map(|warning| warning_line(&warning.clone().into())).collect();
    lines.push(format!("{} is a plan", one_line(&plan.title)));
    lines.push(format!("digest  {}", plan.digest()));
    lines.push(count(count_of(&plan.steps), "step"));
    lines.extend(plan.steps.iter().map(|step| {
        let after = match step.dependencies.join(", ") {
            after if after.is_empty() => after,
            after => format!(" (after {after})"),
        };
        one_line(&format!("{}{after}: {}", step.id, step.description))
    }));
    lines.push(count(count_of(&plan.verify), "check"));
    lines.extend(plan.verify.iter().map(|check| one_line(&check.to_json().to_compact())));
    lines.push("the plan as Surety reads it".to_owned());
    lines.push(plan.to_json().to_compact());
    lines.join("\n")
}

fn count_of<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}
