//! The commands of checks.

use super::additions::{IgnoredAsLeft, ViewOrder};
use super::opening::Put;
use super::view::Prepared;
use super::{Round, may_use_shell};
use crate::blocking::blocking;
use crate::tool::builtin::run_command::outcome;
use crate::tool::process::{self, CommandRequest};
use crate::tool::project::TestCommand;
use crate::tool::{
    Environment, ErrorCode, RelPath, ToolContext, ToolError, ToolOutcome, missing_program,
    word_of_bash,
};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;
use surety_common::domain::check::Owner;
use surety_common::domain::check_inputs::{
    Notes, Role, StartInputs, facts_of_ignored, facts_of_overwritten, is_named_anew, scripts_in,
    source_of_byte_code,
};
use surety_common::domain::command::{
    Program, command_line, is_only_for_shells, needs_shell, programs,
};
use surety_common::domain::receipt::{Command, Fact, Inputs};
use surety_common::domain::verification::{Probe, ProjectTests};
use uuid::Uuid;

impl Round {
    /// Runs a check's line in a view. The fact has the line as it was written, and its exit code.
    ///
    /// A line of a plan gets no shell: its programs run one after another while each succeeds. The author
    /// of a user's or an operator's line is trusted, so what needs a shell gets one.
    pub(super) async fn run_line(
        self: &Arc<Self>,
        probe: &Probe,
        order: ViewOrder,
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let (line, inputs) = (order.line.as_str(), order.inputs);
        ensure_startable(line, order.owner)?;
        self.ensure_prepared(&order)?;
        let runs = self.test_runs(&Command::Line(line.to_owned()), &order).await?;
        let prepared = self.enter_view(&order, call_id).await?;
        let began = Instant::now();
        let ran = start(&prepared.context, line, order.owner).await;
        let took = began.elapsed();
        let mut outcome = self.leave_view(prepared, &order, ran).await?;
        self.note_tests(probe, inputs, (took, runs), &mut outcome).await?;
        Ok(outcome)
    }

    /// Runs the project's own tests; missing tests are recorded as skipped, never as passed.
    pub(super) async fn run_project_tests(
        self: &Arc<Self>,
        probe: &Probe,
        order: ViewOrder,
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let Some(argv) = self.project_tests(order.inputs).await? else {
            let summary = "skipped: the project names no test command";
            let mut outcome = ToolOutcome::done(summary, Vec::new(), vec![ProjectTests::skipped()]);
            // No test ran, so nothing is proven.
            outcome.success = false;
            return Ok(outcome);
        };
        self.ensure_prepared(&order)?;
        if order.inputs == Inputs::AtStart {
            self.restore_start(call_id).await?;
        }
        let runs = self.test_runs(&Command::Argv(argv.clone()), &order).await?;
        let prepared = self.enter_view(&order, call_id).await?;
        let began = Instant::now();
        let program = argv.first().cloned().unwrap_or_default();
        let ran = run_tests(&prepared.context, argv).await;
        let took = began.elapsed();
        let lacks_program =
            ran.as_ref().is_err_and(|error| error.code == ErrorCode::ProgramNotFound);
        self.memory().lacks_program |= lacks_program && order.inputs == Inputs::Original;
        let left = self.leave_view(prepared, &order, ran).await;
        let mut outcome = match left {
            Err(error) if lacks_program && order.inputs == Inputs::AtStart => {
                let facts = vec![ProjectTests::lacks(&program)];
                return Ok(ToolOutcome::failed(error, Vec::new(), facts));
            }
            left => left?,
        };
        self.note_tests(probe, order.inputs, (took, runs), &mut outcome).await?;
        Ok(outcome)
    }

    /// The project's own test command: that of the start, where it had one, so that no step chooses what it is
    /// held to. On the workspace as steps left it they chose.
    pub(super) async fn project_tests(
        &self,
        inputs: Inputs,
    ) -> Result<Option<Vec<String>>, ToolError> {
        let start = self.start()?.filter(|_| inputs != Inputs::AsLeft);
        let at_start = start.and_then(|start| start.facts.imports.project_tests());
        let (folder, environment) =
            (Arc::clone(&self.setup.folder), Arc::clone(&self.setup.environment));
        let at_start = at_start.and_then(TestCommand::of_line);
        blocking(move || {
            let found = match at_start {
                Some(command) => Some(command),
                None => TestCommand::of(folder.workspace()?.as_ref()),
            };
            Ok(found.map(|command| command.argv(&environment)))
        })
        .await?
    }

    /// Runs a line in a view of which nothing is kept.
    pub(super) async fn run_in_view(
        self: &Arc<Self>,
        prepared: Prepared,
        line: &str,
        owner: Owner,
    ) -> Result<ToolOutcome, ToolError> {
        ensure_startable(line, owner)?;
        let ran = start(&prepared.context, line, owner).await;
        let (round, of) = (Arc::clone(self), line.to_owned());
        let collected = blocking(move || round.overwritten(&of, &prepared)).await?;
        let mut outcome = ran?;
        outcome.facts.extend(collected?);
        Ok(outcome)
    }

    pub(super) async fn enter_view(
        self: &Arc<Self>,
        order: &ViewOrder,
        call_id: Uuid,
    ) -> Result<Prepared, ToolError> {
        let (round, order, mut context) = (Arc::clone(self), order.clone(), self.context(call_id));
        if order.unconfined {
            context.sandbox = Arc::new(self.setup.sandbox.without());
        }
        let limit = order.time_limit;
        let mut prepared = blocking(move || round.prepare(context, &order)).await??;
        if let Some(limit) = limit {
            let deadline = tokio::time::Instant::now() + limit;
            prepared.context.deadline = prepared.context.deadline.min(deadline);
        }
        Ok(prepared)
    }

    /// Sorts what the command wrote, and adds to its facts what is known of its check inputs.
    pub(super) async fn leave_view(
        self: &Arc<Self>,
        prepared: Prepared,
        order: &ViewOrder,
        ran: Result<ToolOutcome, ToolError>,
    ) -> Result<ToolOutcome, ToolError> {
        let (round, of) = (Arc::clone(self), order.line.clone());
        let collected = blocking(move || round.overwritten(&of, &prepared)).await?;
        let mut outcome = ran?;
        let overwritten = collected?;
        if matches!(order.inputs, Inputs::Original | Inputs::OriginalWithIgnored) {
            outcome.facts.extend(overwritten);
        }
        outcome.facts.extend(self.notes(&order.line)?.facts(order.inputs));
        if order.inputs == Inputs::AsLeft && order.ignored == IgnoredAsLeft::AllAndNamed {
            let ignored = self.opening()?.ignored.iter().map(|path| path.display().to_string());
            outcome.facts.extend(facts_of_ignored(ignored.collect()));
        }
        Ok(outcome)
    }

    /// Sorts what a command wrote; answers the facts about check inputs of the start that it wrote itself. It blocks.
    fn overwritten(&self, line: &str, prepared: &Prepared) -> Result<Vec<Fact>, ToolError> {
        let written = self.collect(prepared)?;
        let Some(start) = self.start()?.filter(|_| !written.is_empty()) else {
            return Ok(Vec::new());
        };
        let workspace = self.setup.folder.workspace()?;
        let (rules, root) = (&self.setup.rules, workspace.root().as_os_str().as_bytes());
        let inputs = StartInputs::new(rules, &start.facts.imports, &start.manifest, root);
        let named = self.named_anew();
        let own = written.iter().filter_map(|path| {
            // Nothing names the files of a hidden check.
            if prepared.covered.contains(path) {
                return Some("a file of the hidden check".to_owned());
            }
            let name = path.to_string_lossy();
            let source = source_of_byte_code(&name).unwrap_or_else(|| name.into_owned());
            let decides = inputs.decides(line, source.as_bytes()) && !is_named_anew(&source, named);
            decides.then(|| path.display().to_string())
        });
        Ok(facts_of_overwritten(own))
    }

    fn notes(&self, line: &str) -> Result<Notes<'_>, ToolError> {
        let opening = self.opening()?;
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let exam = opening.exams.get(line);
        let kept = |path: &[u8]| {
            self.originals.get().is_some_and(|given| given.has(line, path))
                || opening.git.iter().any(|it| it.path == path && it.content.is_some())
        };
        let put_back = exam.map(|exam| exam.put_back.as_slice()).unwrap_or_default();
        let not_kept = put_back.iter().filter(|difference| !kept(&difference.path));
        let unknown = self.merged_for(line).filter(|(_, merged)| merged.put == Put::Unknown);
        let start = self.start()?.map(|start| &start.manifest);
        // A program that only became executable still has the text of the start.
        let is_changed = |path: &str| {
            let before = start.and_then(|start| start.get(path.as_bytes()));
            let after = opening.now.as_ref().and_then(|now| now.get(path.as_bytes()));
            let differs = before.zip(after).is_some_and(|(before, after)| {
                (before.kind, &before.content) != (after.kind, &after.content)
            });
            differs && !put_back.iter().any(|difference| difference.path == path.as_bytes())
        };
        let root = self.setup.folder.workspace()?.root().to_string_lossy().into_owned();
        let programs = scripts_in(line, &root).into_iter().filter(|it| it.role == Role::Program);
        let programs = programs.map(|script| script.path);
        let (ignored, dependencies) = match self.installed() {
            (_, []) => (opening.ignored.as_slice(), &[][..]),
            (added, installed) => (installed, added),
        };
        Ok(Notes {
            exam,
            merged: self.merged_for(line).flat_map(|(_, merged)| merged.notes.clone()).collect(),
            not_kept: not_kept
                .map(|difference| text(&difference.path))
                .chain(unknown.map(|(path, _)| path.display().to_string()))
                .collect(),
            ignored: ignored.iter().map(|path| path.display().to_string()).collect(),
            ignored_unknown: opening.ignored_unknown,
            dependencies,
            programs: programs.filter(|path| is_changed(path)).collect(),
            imported: opening.imported.get(line).cloned().unwrap_or_default(),
        })
    }
}

/// Refuses a line of a plan that needs a shell, as a whole or for one of its words.
pub(super) fn ensure_startable(line: &str, owner: Owner) -> Result<(), ToolError> {
    if may_use_shell(owner) && needs_shell(line) {
        return Ok(());
    }
    let programs = programs(line);
    let first = |program: &Program| program.argv.first().cloned().unwrap_or_default();
    let words = programs.iter().flatten().map(first);
    let word = words.into_iter().find(|word| is_only_for_shells(word));
    if programs.is_some() && (word.is_none() || may_use_shell(owner)) {
        return Ok(());
    }
    let shell = if word.as_deref() == Some("[[") { "bash" } else { "sh" };
    let shell = command_line(&[shell, "-c", line].map(str::to_owned));
    let (what, instead) = match word.as_deref() {
        None => ("a shell".to_owned(), "name a program".to_owned()),
        Some("cd") => {
            ("a shell for \"cd\"".to_owned(), "name the folder to the program".to_owned())
        }
        Some(word) => {
            (format!("a shell for {word:?}"), "name a program that does the same".to_owned())
        }
    };
    let such = of_folder(programs.as_deref().unwrap_or_default());
    let message = format!(
        "{line:?} needs {what}, which the line of a plan does not get; {instead}{such}, or start the shell by its name: {shell}"
    );
    Err(ToolError::new(ErrorCode::ShellNotAllowed, message))
}

/// How make is told of the folder that a line changes to first; empty for other lines.
fn of_folder(programs: &[Program]) -> String {
    let argv = |at: usize| programs.get(at).map_or(&[][..], |program| program.argv.as_slice());
    match (argv(0), argv(1)) {
        ([cd, folder], [make, rest @ ..])
            if cd == "cd" && make == "make" && programs.len() == 2 =>
        {
            let words = ["make", "-C", folder].map(str::to_owned).into_iter();
            format!(" (`{}`)", command_line(&words.chain(rest.iter().cloned()).collect::<Vec<_>>()))
        }
        _ => String::new(),
    }
}

/// Runs a line, with a shell where its owner may use one and it needs one.
pub(super) async fn start(
    context: &ToolContext,
    line: &str,
    owner: Owner,
) -> Result<ToolOutcome, ToolError> {
    let shell = may_use_shell(owner) && needs_shell(line);
    let text = match programs(line).filter(|_| !shell) {
        None => line.to_owned(),
        Some(programs) => match <[Program; 1]>::try_from(programs) {
            Ok([Program { argv, environment }]) => {
                let added: BTreeMap<String, String> = environment.into_iter().collect();
                let environment = context.environment.with(&added)?;
                return run_argv(context, line, argv, environment).await;
            }
            // All parts of a line are one command: a later part finds what an earlier one made or left running.
            Err(programs) => {
                ensure_chain(context, line, &programs)?;
                if may_use_shell(owner) { line.to_owned() } else { chain(&programs) }
            }
        },
    };
    let argv = vec!["sh".to_owned(), "-c".to_owned(), text];
    run_argv(context, line, argv, Environment::clone(&context.environment)).await
}

/// Refuses a chain with a program that is not there, or that a shell or `env` would take for something else, and one whose
/// assignments no command may have.
fn ensure_chain(context: &ToolContext, line: &str, programs: &[Program]) -> Result<(), ToolError> {
    if let Some(program) = missing_program(line, &context.environment, |_| true) {
        let message = match word_of_bash(&program) {
            Some(advice) => format!("there is no program {program:?}: {advice}"),
            None => format!(
                "there is no program {program:?}: it is neither in the folder nor in the PATH; name one that is installed"
            ),
        };
        return Err(ToolError::new(ErrorCode::ProgramNotFound, message));
    }
    for Program { argv, environment } in programs {
        let added: BTreeMap<String, String> = environment.iter().cloned().collect();
        context.environment.with(&added)?;
        let name = argv.first().map_or("", String::as_str);
        if name.starts_with('-') || name.contains('=') {
            let message = format!("{line:?} has no program before {name:?}; name one");
            return Err(ToolError::new(ErrorCode::ProgramNotFound, message));
        }
    }
    Ok(())
}

/// A line in which a shell starts these programs one after another while each succeeds, and does nothing itself: each word is
/// quoted, and `env` starts a program where the shell has a command of the same name.
fn chain(programs: &[Program]) -> String {
    let part = |program: &Program| {
        let assigned = program.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let words = ["env".to_owned()].into_iter().chain(assigned);
        command_line(&words.chain(program.argv.iter().cloned()).collect::<Vec<_>>())
    };
    programs.iter().map(part).collect::<Vec<_>>().join(" && ")
}

/// Runs a program of a line. The fact has the whole line.
pub(super) async fn run_argv(
    context: &ToolContext,
    line: &str,
    argv: Vec<String>,
    environment: Environment,
) -> Result<ToolOutcome, ToolError> {
    let request = CommandRequest {
        command: Command::Argv(argv),
        folder: context.workspace()?.folder(&RelPath::root())?,
        environment,
    };
    let finished = process::run(context, &request).await?;
    Ok(outcome(Command::Line(line.to_owned()), finished))
}

async fn run_tests(context: &ToolContext, argv: Vec<String>) -> Result<ToolOutcome, ToolError> {
    let request = CommandRequest {
        command: Command::Argv(argv),
        folder: context.workspace()?.folder(&RelPath::root())?,
        environment: Environment::clone(&context.environment),
    };
    let finished = process::run(context, &request).await?;
    Ok(outcome(request.command, finished))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_plan_that_needs_a_shell_is_refused_with_what_to_write() {
        let message = |line: &str, owner| ensure_startable(line, owner).err().map(|it| it.message);
        for (line, part) in [
            ("cd sub && make test", "(`make -C sub test`)"),
            ("cd 'a b' && make", "(`make -C 'a b'`)"),
            ("cd sub && cargo test", "name the folder to the program, or start"),
            ("! grep -q x a", "sh -c '! grep -q x a'"),
            ("make && export A=1", "a shell for \"export\""),
            ("[[ -f a ]]", "bash -c '[[ -f a ]]'"),
            ("make | tee log", "sh -c 'make | tee log'"),
        ] {
            let found = message(line, Owner::Plan);
            assert!(found.as_ref().is_some_and(|it| it.contains(part)), "{line}: {found:?}");
            assert_eq!(message(line, Owner::User), None, "{line}");
        }
        for line in ["make -C sub test", "sh -c '! grep -q x a'", "make && command -v cc"] {
            assert_eq!(message(line, Owner::Plan), None, "{line}");
        }
    }
}
