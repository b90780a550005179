//! Following a run: from any event, by many watchers at once, without gaps or repeats.

use anyhow::{Context, Result};
use futures::future::try_join_all;
use serde_json::json;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::script::{Trail, noop, plan, shell, step, write};

async fn watch(deployment: &Deployment, run_id: &str, from: u64, follow: bool) -> Result<Vec<u64>> {
    let request = v1::WatchRunRequest {
        run_id: run_id.to_owned(),
        from_sequence: from,
        follow,
        progress: false,
    };
    let mut stream = deployment.runs()?.watch_run(request).await?.into_inner();
    let mut seen = Vec::new();
    while let Some(response) = stream.message().await? {
        seen.extend(response.event.map(|event| event.sequence));
    }
    Ok(seen)
}

#[tokio::test]
async fn every_watcher_sees_every_event_from_its_place_on_exactly_once() -> Result<()> {
    let trail = Trail::new()?;
    let deployment = Deployment::start().await?;
    let mut steps = vec![step("s0", &[], &[shell(&trail.mark_and_wait("began"))])];
    for n in 1..12 {
        steps.push(step(&format!("s{n}"), &[&format!("s{}", n - 1)], &[noop(), noop()]));
    }
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let now = deployment.run(&run.id).await?.last_sequence;
    let places = [0, 1, 2, 3, now, now + 1, now + 7, now + 30];
    let watching = try_join_all(places.map(|from| watch(&deployment, &run.id, from, true)));
    let (seen, ended) = tokio::join!(watching, async {
        trail.let_go()?;
        deployment.wait_for_end(&run.id).await
    });
    let last = ended?.last_sequence;
    assert!(last > now + 30, "{last} events");
    for (from, seen) in places.into_iter().zip(seen?) {
        assert_eq!(seen, (from.max(1)..=last).collect::<Vec<_>>(), "from {from}");
    }
    for from in [1, last, last + 1, last + 100] {
        let seen = watch(&deployment, &run.id, from, true).await?;
        assert_eq!(seen, (from..=last).collect::<Vec<_>>(), "after the end, from {from}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_look_without_following_ends_with_what_is_there() -> Result<()> {
    let trail = Trail::new()?;
    let deployment = Deployment::start().await?;
    let steps = [step("only", &[], &[shell(&trail.mark_and_wait("began"))])];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let now = deployment.run(&run.id).await?.last_sequence;
    assert_eq!(watch(&deployment, &run.id, 1, false).await?, (1..=now).collect::<Vec<_>>());
    trail.let_go()?;
    deployment.wait_for_end(&run.id).await?;
    deployment.finish().await
}

/// An end without an error is the end of the run for every client of generated code.
#[tokio::test]
async fn a_stream_that_a_planner_ends_before_the_run_says_that_the_planner_shuts_down() -> Result<()>
{
    let trail = Trail::new()?;
    let mut deployment = Deployment::start().await?;
    let steps = [step("only", &[], &[shell(&trail.mark_and_wait("began"))])];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let now = deployment.run(&run.id).await?.last_sequence;
    let request = v1::WatchRunRequest {
        run_id: run.id.clone(),
        from_sequence: 1,
        follow: true,
        progress: false,
    };
    let mut stream = deployment.runs()?.watch_run(request).await?.into_inner();
    let mut seen = 0;
    while seen < now {
        let event = stream.message().await?.and_then(|answer| answer.event);
        seen = event.context("the stream ended")?.sequence;
    }
    let (stopped, ended) = tokio::join!(deployment.planner.stop(), async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    });
    assert!(stopped?.success());
    let status = ended.context("the stream ended as if the run had ended")?;
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    assert_eq!(from_status(&status).reason.as_str(), "shutting_down", "{status:?}");
    deployment.replace_planner().await?;
    trail.let_go()?;
    let last = deployment.wait_for_end(&run.id).await?.last_sequence;
    assert_eq!(
        watch(&deployment, &run.id, seen + 1, true).await?,
        (seen + 1..=last).collect::<Vec<_>>()
    );
    deployment.finish().await
}

#[tokio::test]
async fn a_journal_of_large_turns_is_seen_whole_from_any_place() -> Result<()> {
    let deployment = Deployment::start().await?;
    let much = write("much.txt", &"0123456789\n".repeat(2500));
    // Turns that only read are stored as one row with the write after them. None is like the last
    // one.
    let calls = (0..18).map(|n| match n % 6 {
        5 => write("little.txt", &n.to_string()),
        _ => json!({"name": "read_file", "arguments": {"path": "much.txt", "limit": 2400 + n}}),
    });
    let calls: Vec<_> = calls.collect();
    let mut steps = vec![step("s0", &[], &[much])];
    for n in 1..5 {
        steps.push(step(&format!("s{n}"), &[&format!("s{}", n - 1)], &calls));
    }
    let run = deployment.create(&plan(&steps), "").await?;
    let (followed, ended) =
        tokio::join!(watch(&deployment, &run.id, 1, true), deployment.wait_for_end(&run.id));
    let ended = ended?;
    assert_eq!(ended.state(), v1::RunState::Done, "{ended:#?}");
    let last = ended.last_sequence;
    assert_eq!(followed?, (1..=last).collect::<Vec<_>>(), "while it went on");
    for (from, follow) in [(1, true), (1, false), (7, false), (last / 2, false), (last, false)] {
        let seen = watch(&deployment, &run.id, from, follow).await?;
        assert_eq!(seen, (from..=last).collect::<Vec<_>>(), "from {from}");
    }
    deployment.finish().await
}
