//! What the engine does with a plan: order, side by side, fuses, checks of steps.

use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use surety_common::wire::v1;
use surety_common::wire::value::whole_seconds;
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, scoped, shell, step, write};

/// Creates a run under limits, and waits for its end.
async fn run_under(deployment: &Deployment, plan: &Value, limits: v1::Limits) -> Result<v1::Run> {
    let request = v1::CreateRunRequest { limits: Some(limits), ..script::request(plan, "") };
    let run = deployment.create_run(request).await?;
    deployment.wait_for_end(&run.id).await
}

fn stop_reason(run: &v1::Run) -> v1::StopReason {
    run.terminal.as_ref().map_or(v1::StopReason::Unspecified, v1::Terminal::stop_reason)
}

fn transitions(events: &[v1::Event]) -> Vec<&v1::Transition> {
    let moved = events.iter().filter_map(|event| match &event.kind {
        Some(v1::event::Kind::Transition(moved)) => Some(moved),
        _ => None,
    });
    moved.collect()
}

/// The places at which steps reached a state, in the journal's order.
fn reached(events: &[v1::Event], state: v1::StepState) -> Vec<&str> {
    let steps = transitions(events).into_iter().filter(|moved| moved.step_to() == state);
    let steps = steps.filter_map(|moved| match &moved.subject {
        Some(v1::transition::Subject::StepId(id)) => Some(id.as_str()),
        _ => None,
    });
    steps.collect()
}

fn turns(events: &[v1::Event]) -> Vec<&v1::Turn> {
    let turns = events.iter().filter_map(|event| match &event.kind {
        Some(v1::event::Kind::Turn(turn)) => Some(turn),
        _ => None,
    });
    turns.collect()
}

fn refusals(events: &[v1::Event]) -> Vec<String> {
    let validations = turns(events).into_iter().flat_map(|turn| &turn.validations);
    validations.filter(|one| !one.passed).map(|one| one.code.clone()).collect()
}

#[tokio::test]
async fn a_diamond_runs_its_arms_between_its_ends() -> Result<()> {
    let deployment = Deployment::start().await?;
    let steps = [
        step("last", &["left", "right"], &[noop()]),
        step("left", &["first"], &[noop()]),
        step("right", &["first"], &[noop()]),
        step("first", &[], &[noop()]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let events = deployment.events(&run.id).await?;
    let done = reached(&events, v1::StepState::Done);
    assert_eq!((done.first(), done.last(), done.len()), (Some(&"first"), Some(&"last"), 4));
    deployment.finish().await
}

#[tokio::test]
async fn steps_run_side_by_side_up_to_the_limit_and_the_rest_waits() -> Result<()> {
    let deployment = Deployment::start().await?;
    let trail = Trail::new()?;
    let steps: Vec<Value> = (0..4)
        .map(|n| {
            let step = step(&format!("s{n}"), &[], &[shell(&trail.mark_and_wait("began"))]);
            scoped(step, &[&format!("s{n}/**")])
        })
        .collect();
    let limits = v1::Limits { max_parallel_steps: Some(2), ..v1::Limits::default() };
    let request =
        v1::CreateRunRequest { limits: Some(limits), ..script::request(&plan(&steps), "") };
    let run = deployment.create_run(request).await?;
    wait_until("two began", || trail.marks("began") == 2).await?;
    let waiting = deployment.run(&run.id).await?;
    let in_state = |run: &v1::Run, state: v1::StepState| {
        run.steps.iter().filter(|step| step.state() == state).count()
    };
    let counts = (v1::StepState::Running, v1::StepState::Ready);
    assert_eq!((in_state(&waiting, counts.0), in_state(&waiting, counts.1)), (2, 2));
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(trail.marks("began"), 4);
    deployment.finish().await
}

#[tokio::test]
async fn steps_that_may_write_the_same_files_take_turns_and_readers_run_beside_them() -> Result<()>
{
    let deployment = Deployment::start().await?;
    let trail = Trail::new()?;
    let waits = |name: &str| step(name, &[], &[shell(&trail.mark_and_wait(name))]);
    let steps = [
        scoped(waits("src"), &["src/**"]),
        scoped(waits("file"), &["src/*.rs"]),
        waits("anywhere"),
        step("reads", &[], &[noop()]),
        scoped(waits("docs"), &["docs/**"]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    let done = |run: &v1::Run| run.steps[3].state() == v1::StepState::Done;
    let run = deployment.wait_for(&run.id, "read", done).await?;
    wait_until("both that collide with nothing began", || {
        trail.marks("src") + trail.marks("docs") == 2
    })
    .await?;
    use v1::StepState::{Done, Ready, Running};
    let states: Vec<_> = run.steps.iter().map(v1::StepProgress::state).collect();
    assert_eq!(states, [Running, Ready, Ready, Done, Running]);
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn steps_that_collide_never_meet_and_steps_that_do_not_meet() -> Result<()> {
    let deployment = Deployment::start().await?;
    let trail = Trail::new()?;
    // A step that finds the folder of another running one leaves a mark.
    let (lock, met) = (trail.path("lock"), trail.mark("met"));
    let alone = format!("mkdir '{0}' || {met}; sleep 0.05; rmdir '{0}'", lock.display());
    // Each continues only once the other is running too.
    let (left, right) = (trail.path("left"), trail.path("right"));
    let together = |mine: &Path, other: &Path| {
        let (mine, other) = (mine.display(), other.display());
        shell(&format!("touch '{mine}'; while [ ! -e '{other}' ]; do sleep 0.02; done"))
    };
    let mut steps: Vec<Value> = ["src/**", "src/a/*.rs", "src/a/**", "**/b.rs", "src/?/b.rs"]
        .iter()
        .enumerate()
        .map(|(n, scope)| scoped(step(&format!("s{n}"), &[], &[shell(&alone)]), &[scope]))
        .collect();
    steps.push(scoped(step("left", &[], &[together(&left, &right)]), &["left/*.txt"]));
    steps.push(scoped(step("right", &[], &[together(&right, &left)]), &["right/*.txt"]));
    let run = deployment.create(&plan(&steps), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(trail.marks("met"), 0, "two were at work in the same files");
    deployment.finish().await
}

#[tokio::test]
async fn a_write_outside_the_steps_scope_fails_with_its_code_and_changes_nothing() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = tempfile::tempdir()?;
    let steps = [scoped(step("only", &[], &[write("docs/a.txt", "x")]), &["src/**"])];
    let request = v1::CreateRunRequest {
        limits: Some(v1::Limits { max_replans: Some(0), ..v1::Limits::default() }),
        ..script::request(&plan(&steps), &folder.path().to_string_lossy())
    };
    let run = deployment.create_run(request).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::MaxReplansReached, "{run:#?}");
    let events = format!("{:?}", deployment.events(&run.id).await?);
    assert!(events.contains("outside the step's write scope"), "{events}");
    assert!(!folder.path().join("docs").exists());
    deployment.finish().await
}

#[tokio::test]
async fn a_run_of_many_steps_in_a_row_and_side_by_side_ends() -> Result<()> {
    let deployment = Deployment::start().await?;
    let mut steps: Vec<Value> =
        (0..40).map(|n| step(&format!("wide{n}"), &[], &[noop(), noop()])).collect();
    let all: Vec<String> = (0..40).map(|n| format!("wide{n}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    steps.push(step("narrow0", &all, &[noop()]));
    for n in 1..40 {
        steps.push(step(&format!("narrow{n}"), &[&format!("narrow{}", n - 1)], &[noop()]));
    }
    let limits = v1::Limits {
        max_plan_steps: Some(80),
        max_parallel_steps: Some(16),
        ..v1::Limits::default()
    };
    let run = run_under(&deployment, &plan(&steps), limits).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(run.counters.unwrap_or_default().tool_calls, 120);
    deployment.finish().await
}

#[tokio::test]
async fn a_failing_step_is_tried_again_until_no_retry_remains() -> Result<()> {
    let deployment = Deployment::start().await?;
    let trail = Trail::new()?;
    let line = format!("{}; exit 3", trail.mark("tried"));
    let steps = [step("fails", &[], &[shell(&line)]), step("never", &["fails"], &[noop()])];
    let run = run_under(&deployment, &plan(&steps), v1::Limits::default()).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::MaxReplansReached, "{run:#?}");
    assert_eq!(trail.marks("tried"), 3, "once, and max_replans (2) times again");
    assert_eq!(
        run.steps.iter().map(v1::StepProgress::state).collect::<Vec<_>>(),
        [v1::StepState::Failed, v1::StepState::Blocked]
    );
    let events = deployment.events(&run.id).await?;
    assert!(!reached(&events, v1::StepState::Running).contains(&"never"));
    deployment.finish().await
}

#[tokio::test]
async fn a_step_that_succeeds_at_its_second_try_leads_to_an_accepted_run() -> Result<()> {
    let deployment = Deployment::start().await?;
    let trail = Trail::new()?;
    let marks = trail.path("tried");
    let line = format!("{}; test $(wc -l < '{}') -ge 2", trail.mark("tried"), marks.display());
    let steps = [step("flaky", &[], &[shell(&line)]), step("next", &["flaky"], &[noop()])];
    let run = run_under(&deployment, &plan(&steps), v1::Limits::default()).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(run.counters.unwrap_or_default().replans, 1);
    assert_eq!(run.steps.first().map(|step| step.attempt), Some(2));
    deployment.finish().await
}

#[tokio::test]
async fn each_fuse_of_a_step_fails_the_step_and_says_so() -> Result<()> {
    let deployment = Deployment::start().await?;
    let different = |n: u64| write(&format!("f{n}.txt"), "x");
    let calls = [different(1), different(2), different(3)];
    let plan = plan(&[step("busy", &[], &calls)]);
    let none = v1::Limits { max_replans: Some(0), ..v1::Limits::default() };
    for (limits, name) in [
        (v1::Limits { max_step_tool_calls: Some(2), ..none }, "max_step_tool_calls"),
        (v1::Limits { max_step_rounds: Some(2), ..none }, "max_step_rounds"),
    ] {
        let run = run_under(&deployment, &plan, limits).await?;
        assert_eq!(stop_reason(&run), v1::StopReason::MaxReplansReached, "{name}: {run:#?}");
        assert_eq!(run.counters.unwrap_or_default().tool_calls, 2, "{name}");
        let events = deployment.events(&run.id).await?;
        let failed =
            transitions(&events).into_iter().find(|moved| moved.step_to() == v1::StepState::Failed);
        assert!(failed.is_some_and(|moved| moved.cause.contains(name)), "{name}: {failed:?}");
    }
    // The run's own fuse.
    let limits = v1::Limits { max_run_rounds: Some(2), ..none };
    let run = run_under(&deployment, &plan, limits).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::MaxRoundsReached, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn steps_that_run_together_take_no_more_turns_than_the_run_has() -> Result<()> {
    let deployment = Deployment::start().await?;
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let steps: Vec<_> = names
        .iter()
        .map(|name| {
            let file = format!("{name}/f.txt");
            scoped(step(name, &[], &[write(&file, "x")]), &[&format!("{name}/**")])
        })
        .collect();
    for turns in [1, 3, 7] {
        let workspace = tempfile::tempdir()?;
        let limits = v1::Limits {
            max_run_rounds: Some(turns),
            max_parallel_steps: Some(20),
            max_plan_steps: Some(20),
            ..v1::Limits::default()
        };
        let order = v1::CreateRunRequest {
            limits: Some(limits),
            ..script::request(&plan(&steps), &workspace.path().to_string_lossy())
        };
        let run = deployment.create_run(order).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(stop_reason(&run), v1::StopReason::MaxRoundsReached, "{run:#?}");
        let files = names.iter().filter(|name| workspace.path().join(name).join("f.txt").exists());
        let counters = run.counters.unwrap_or_default();
        let used = (counters.rounds, counters.tool_calls, counters.receipts);
        // A step's end is a turn of its own where it does not fit into the turn of its call.
        assert!(used.0 <= turns && used.1 == used.2, "{used:?} of {turns}");
        assert_eq!(u32::try_from(files.count())?, used.1, "each write has its receipt: {used:?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_step_deadline_ends_the_command_that_runs_over_it() -> Result<()> {
    let deployment = Deployment::start().await?;
    let trail = Trail::new()?;
    let plan = plan(&[step("slow", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let limits = v1::Limits {
        step_deadline: Some(whole_seconds(1)),
        max_replans: Some(0),
        ..v1::Limits::default()
    };
    let run = run_under(&deployment, &plan, limits).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::MaxReplansReached, "{run:#?}");
    assert_eq!(trail.marks("began"), 1);
    deployment.finish().await
}

#[tokio::test]
async fn a_run_deadline_ends_the_run_and_the_command_in_it() -> Result<()> {
    let deployment = Deployment::start().await?;
    let trail = Trail::new()?;
    let line = format!(
        "trap '{}; exit 1' TERM; {{ {}; }} & wait",
        trail.mark("ended"),
        trail.mark_and_wait("began")
    );
    let plan = plan(&[step("slow", &[], &[shell(&line)])]);
    let limits = v1::Limits { run_deadline: Some(whole_seconds(2)), ..v1::Limits::default() };
    let run = run_under(&deployment, &plan, limits).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::DeadlineExceeded, "{run:#?}");
    assert_eq!(trail.marks("began"), 1);
    wait_until("the command was ended", || trail.marks("ended") == 1).await?;
    deployment.finish().await
}

#[tokio::test]
async fn an_unknown_tool_is_refused_by_name_until_the_run_stops() -> Result<()> {
    let deployment = Deployment::start().await?;
    let call = json!({"name": "fly", "arguments": {}});
    let run =
        run_under(&deployment, &plan(&[step("odd", &[], &[call])]), v1::Limits::default()).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::MaxConsecutiveCorrections, "{run:#?}");
    let message = run.terminal.map(|terminal| terminal.user_message).unwrap_or_default();
    assert!(message.contains("unknown_tool"), "{message}");
    let events = deployment.events(&run.id).await?;
    assert_eq!(refusals(&events), ["unknown_tool"; 3]);
    for turn in turns(&events) {
        assert!(turn.correction.contains("write_file"), "no list of tools: {}", turn.correction);
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_step_that_needs_no_evidence_may_end_without_a_call_and_another_may_not() -> Result<()> {
    let deployment = Deployment::start().await?;
    let mut free = step("talk", &[], &[]);
    free["evidence"] = json!("none");
    let run = run_under(&deployment, &plan(&[free]), v1::Limits::default()).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let bound = plan(&[step("talk", &[], &[])]);
    let run = run_under(&deployment, &bound, v1::Limits::default()).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::MaxConsecutiveCorrections, "{run:#?}");
    let events = deployment.events(&run.id).await?;
    assert_eq!(refusals(&events), ["evidence_missing"; 3]);
    deployment.finish().await
}

#[tokio::test]
async fn a_step_ends_only_when_its_own_checks_hold() -> Result<()> {
    let deployment = Deployment::start().await?;
    let with_check = |content: &str| {
        let look = json!({"argv": ["grep", "-q", "good", "a.txt"]});
        let look = json!({"name": "run_command", "arguments": look});
        let mut step = step("write", &[], &[write("a.txt", content), look]);
        step["verify"] = json!([{"kind": "command_success", "target": "grep -q good a.txt"}]);
        plan(&[step])
    };
    let run = run_under(&deployment, &with_check("good"), v1::Limits::default()).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let mut wrong = step("write", &[], &[write("a.txt", "good")]);
    wrong["verify"] = json!([{"kind": "command_success", "target": "make test"}]);
    let run = run_under(&deployment, &plan(&[wrong]), v1::Limits::default()).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::MaxConsecutiveCorrections, "{run:#?}");
    let events = deployment.events(&run.id).await?;
    assert_eq!(refusals(&events), ["step_check_failed"; 3]);
    deployment.finish().await
}

#[tokio::test]
async fn a_path_outside_the_workspace_is_refused_in_the_receipt_and_nothing_is_written()
-> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace)?;
    std::os::unix::fs::symlink(folder.path(), workspace.join("out"))?;
    let absolute = folder.path().join("c.txt").to_string_lossy().into_owned();
    for path in ["../a.txt", "out/b.txt", absolute.as_str()] {
        let plan = plan(&[step("escape", &[], &[write(path, "x")])]);
        let request = v1::CreateRunRequest {
            limits: Some(v1::Limits { max_replans: Some(0), ..v1::Limits::default() }),
            ..script::request(&plan, &workspace.to_string_lossy())
        };
        let run = deployment.create_run(request).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(stop_reason(&run), v1::StopReason::MaxReplansReached, "{path}: {run:#?}");
        let events = deployment.events(&run.id).await?;
        let receipt = events.iter().find_map(|event| match &event.kind {
            Some(v1::event::Kind::Receipt(receipt)) => Some(receipt),
            _ => None,
        });
        let receipt = receipt.cloned().unwrap_or_default();
        assert!(!receipt.success && receipt.facts.is_empty(), "{path}: {receipt:#?}");
        assert!(receipt.summary.contains("path_outside_workspace"), "{path}: {receipt:#?}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path())?.collect::<Result<_, _>>()?;
    assert_eq!(left.len(), 1, "{left:?}");
    deployment.finish().await
}

#[tokio::test]
async fn the_same_call_with_the_same_result_again_and_again_stops_the_run() -> Result<()> {
    let deployment = Deployment::start().await?;
    let calls = vec![json!({"name": "list_dir", "arguments": {"path": "."}}); 12];
    let run =
        run_under(&deployment, &plan(&[step("stuck", &[], &calls)]), v1::Limits::default()).await?;
    assert_eq!(stop_reason(&run), v1::StopReason::RepeatCycle, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn many_runs_at_once_over_two_executors_all_end() -> Result<()> {
    let mut deployment = Deployment::start().await?;
    deployment.add_executor(&[]).await?;
    let plan = plan(&[step("a", &[], &[noop()]), step("b", &["a"], &[noop()])]);
    let mut runs = Vec::new();
    for _ in 0..100 {
        runs.push(deployment.create(&plan, "").await?);
    }
    let begun = std::time::Instant::now();
    for run in &runs {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    deployment.finish().await
}
