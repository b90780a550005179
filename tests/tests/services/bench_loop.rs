//! The tasks of the loop's benchmark are honest, and models of every grade come to the end that they deserve.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;
use surety_e2e::harness::Deployment;
use surety_e2e::loop_bench::grade::{Grade, Model};
use surety_e2e::loop_bench::play::{Outcome, play};
use surety_e2e::loop_bench::player::Players;
use surety_e2e::loop_bench::project::Project;
use surety_e2e::loop_bench::report::{Played, Report};
use surety_e2e::loop_bench::task::{Base, Kind, Task, Tasks};
use surety_e2e::model_server::{ModelServer, Settings};

/// Projects that are built at a time.
const AT_ONCE: usize = 4;
const MODEL: &str = "scripted";

#[test]
fn there_are_enough_tasks_of_every_language_and_kind() -> Result<()> {
    let tasks = Tasks::read()?;
    assert!(tasks.tasks.len() >= 40, "{}", tasks.tasks.len());
    let mut kinds: BTreeMap<&str, Vec<Kind>> = BTreeMap::new();
    for task in &tasks.tasks {
        kinds.entry(&task.language).or_default().push(task.kind);
        ensure!(task.goal.lines().count() == 1, "{}: a goal is one line", task.id);
    }
    for (language, kinds) in &kinds {
        assert!(kinds.len() >= 8, "{language} has {} tasks", kinds.len());
        assert_eq!(kinds.iter().collect::<BTreeSet<_>>().len(), 4, "{language}");
    }
    let goals: BTreeSet<&str> = tasks.tasks.iter().map(|task| task.goal.as_str()).collect();
    assert_eq!(goals.len(), tasks.tasks.len(), "the goal tells the runs of a model apart");
    Ok(())
}

#[tokio::test]
async fn the_truth_of_each_task_holds_for_the_right_change_alone() -> Result<()> {
    let tasks = Tasks::read()?;
    let playable = playable(&tasks)?;
    let checked = playable.iter().map(|task| honest(task, tasks.base(task)));
    let wrong: Vec<Vec<String>> =
        stream::iter(checked).buffer_unordered(AT_ONCE).try_collect().await?;
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

/// What the truth test of a task says otherwise than it should.
async fn honest(task: &Task, base: Result<&Base>) -> Result<Vec<String>> {
    let base = base?;
    let right = task.change();
    let mut states = vec![("untouched", Vec::new(), false), ("right", right, true)];
    states.extend(task.special_case().map(|changes| ("special-cased", changes, false)));
    let mut wrong = Vec::new();
    for (name, changes, holds) in states {
        let project = Project::create(task, base).await?;
        project.apply(&changes).with_context(|| format!("{}, {name}", task.id))?;
        let truth = project.truth(task, base).await?;
        if truth.holds != holds {
            wrong.push(format!("{}, {name}: {}", task.id, truth.said));
        }
    }
    Ok(wrong)
}

/// The tasks whose languages are on this machine. Those that are not are recorded as skipped.
fn playable(tasks: &Tasks) -> Result<Vec<&Task>> {
    let missing = tasks.missing();
    if let Some(file) = std::env::var_os("SURETY_TEST_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file)?;
        for (language, program) in &missing {
            writeln!(file, "tasks in {language} of the loop's benchmark: {program} is not here")?;
        }
    }
    Ok(tasks.tasks.iter().filter(|task| !missing.contains_key(task.language.as_str())).collect())
}

/// The tasks that are carried through the whole loop here, each with a special case and a changelog.
const WHOLE: [&str; 3] = ["python/bug-pages", "javascript/bug-sort", "c/bug-trim"];

#[tokio::test]
async fn each_grade_comes_to_the_end_that_it_deserves() -> Result<()> {
    let tasks = Tasks::read()?;
    let players = Players::default();
    let settings = Settings { models: vec![MODEL.to_owned()], ..Settings::default() };
    let server = ModelServer::start(settings, players.script()).await?;
    let url = server.url();
    let environment = [("SURETY_MODEL_URL", url.as_str()), ("SURETY_MODEL_NAME", MODEL)];
    let deployment = Deployment::start_with(&environment).await?;
    let whole = |task: &&Task| WHOLE.contains(&task.id.as_str());
    let chosen: Vec<&Task> = playable(&tasks)?.into_iter().filter(whole).collect();
    let mut report = Report::default();
    for grade in Grade::ALL {
        for (number, task) in chosen.iter().copied().enumerate() {
            let lines = grade.lines(task, tasks.base(task)?, number);
            players.add(&task.goal, lines.context("each has a special case")?);
        }
        let played = chosen.iter().map(|task| played(&deployment, &tasks, task));
        let outcomes: Vec<(&Task, Outcome)> =
            stream::iter(played).buffer_unordered(AT_ONCE).try_collect().await?;
        for (task, outcome) in outcomes {
            let id = &task.id;
            assert_eq!(outcome.accepted, grade.is_honest(), "{id}, {grade:?}: {outcome:#?}");
            assert_eq!(outcome.truth.holds, grade.is_honest(), "{id}, {grade:?}: {outcome:#?}");
            let cost = (outcome.corrections, outcome.repairs);
            if let Some(expected) = expected(grade) {
                assert_eq!(cost, expected, "{id}, {grade:?}: {outcome:#?}");
            }
            let model = Model::Scripted(grade);
            report.add(Played { task: id.clone(), model, outcome });
        }
    }
    assert_eq!(report.accepted_and_wrong(), 0, "{report}");
    assert!(report.surprises().is_empty(), "{report}");
    deployment.finish().await
}

/// The corrections and repairs that a grade costs; none where a lie decides it.
const fn expected(grade: Grade) -> Option<(u32, u32)> {
    match grade {
        Grade::Perfect | Grade::LoopingReminded => Some((0, 0)),
        // The plan, the completion, its reason; and the changelog.
        Grade::Forgetful => Some((3, 1)),
        // The trailing comma.
        Grade::Sloppy => Some((1, 0)),
        Grade::LyingClaim | Grade::LyingTests | Grade::LyingSpecial | Grade::Looping => None,
    }
}

async fn played<'a>(
    deployment: &Deployment,
    tasks: &Tasks,
    task: &'a Task,
) -> Result<(&'a Task, Outcome)> {
    let outcome = play(deployment, (task, tasks.base(task)?), Duration::from_secs(120)).await?;
    Ok((task, outcome))
}
