//! Several profiles of models at once: each request goes to the endpoint of its use.

use crate::model::stage::{
    Plays, goal_of, is_planning, next_plan, one_step, say, stop_reason, tool, unplanned,
    write_answer,
};
use anyhow::{Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_e2e::harness::Deployment;
use surety_e2e::model_server::{ModelServer, Reply, Settings};
use tempfile::NamedTempFile;

/// The profiles, in the order of their uses: plans, steps, second tries.
const PROFILES: [&str; 3] = ["strong", "fast", "second"];

/// The model of a profile.
fn model(profile: &str) -> String {
    format!("model-of-{profile}")
}

/// What was asked for: a plan, a patch, a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Plan,
    Patch,
    Turn,
}

use Request::{Patch, Plan, Turn};

/// The requests of a run that arrived at a server.
fn arrived(server: &ModelServer, goal: &str) -> Vec<Request> {
    let asked = server.asked().into_iter().filter(|asked| goal_of(asked) == goal);
    let request = asked.map(|asked| match is_planning(&asked) {
        true if asked.system.starts_with("You plan") => Plan,
        true => Patch,
        false => Turn,
    });
    request.collect()
}

/// A server for each profile, and the file that names them.
async fn start(plays: &Plays) -> Result<(Vec<ModelServer>, NamedTempFile)> {
    let [plan, step, retry] = PROFILES;
    let mut text = format!("[use]\nplan = {plan:?}\nstep = {step:?}\nretry = {retry:?}\n");
    let mut servers = Vec::new();
    for profile in PROFILES {
        // A server refuses the model of another profile.
        let settings = Settings { models: vec![model(profile)], ..Settings::default() };
        let server = ModelServer::start(settings, plays.script()).await?;
        let (url, model) = (server.url(), model(profile));
        text.push_str(&format!("[model.{profile}]\nurl = {url:?}\nmodel = {model:?}\n"));
        servers.push(server);
    }
    let file = NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    Ok((servers, file))
}

/// A run without a second try, and one whose plan is refused once, a turn corrected once, and whose step fails once.
fn add_plays(plays: &Plays) {
    plays.add("easy", |number, asked| match is_planning(asked) {
        true => say(&one_step()),
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    plays.add("hard", |number, asked| match (is_planning(asked), number) {
        (true, 0) => Reply::text("First I would look around."),
        (true, 1) => say(&one_step()),
        (false, 2) => tool("teleport", json!({})),
        (false, 3) => tool("glob", json!({"pattern": "*"})),
        (false, 4) => say(&json!({"control": "replan", "reason": "the folder is wrong"})),
        (true, 5) => {
            let update = json!({"id": "s", "description": "write answer.txt here"});
            say(&json!({"update_steps": [update], "reason": "the folder"}))
        }
        (false, 6) => write_answer(),
        (false, _) => next_plan(),
        (true, _) => Reply::status(500).saying("no such question is expected"),
    });
}

#[tokio::test]
async fn plans_steps_and_second_tries_arrive_at_the_endpoints_of_their_profiles() -> Result<()> {
    let plays = Plays::default();
    add_plays(&plays);
    let (servers, file) = start(&plays).await?;
    let path = file.path().to_string_lossy().into_owned();
    let deployment =
        Deployment::start_with(&[("SURETY_MODEL_PROFILES_FILE", path.as_str())]).await?;
    let mut runs = Vec::new();
    for goal in ["easy", "hard"] {
        let folder = tempfile::tempdir()?;
        let request = unplanned(goal, &folder.path().to_string_lossy());
        let run = deployment.create_run(request).await?;
        runs.push((goal, run.id, folder));
    }
    for (goal, run_id, _) in &runs {
        let ended = deployment.wait_for_end(run_id).await?;
        ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{goal}: {ended:#?}");
    }
    for (goal, expected) in [
        ("easy", [vec![Plan], vec![Turn, Turn], vec![]]),
        ("hard", [vec![Plan, Patch], vec![Turn, Turn], vec![Plan, Turn, Turn, Turn]]),
    ] {
        for ((profile, server), expected) in PROFILES.iter().zip(&servers).zip(expected) {
            let found = arrived(server, goal);
            ensure!(found == expected, "{goal} at {profile}: {found:?}, not {expected:?}");
        }
    }
    for (goal, run_id, _) in &runs {
        for event in deployment.events(run_id).await? {
            let named = match event.kind {
                Some(Kind::PlanStored(plan)) => plan.model,
                Some(Kind::Turn(turn)) => turn.model,
                _ => None,
            };
            let Some(named) = named else { continue };
            ensure!(named.model == model(&named.endpoint), "{goal}: {named:#?}");
        }
    }
    deployment.finish().await
}
