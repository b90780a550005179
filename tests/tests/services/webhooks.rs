//! Webhooks tell an address that the operator lists of waits and ends, signed, and again after a failure.

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use surety_common::wire::client::channel;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_e2e::agent::{AGENT, Agent, PERSON, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment, PATIENCE, wait_for_yes, wait_until};
use surety_e2e::script::{plan, request};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

const KEY: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";

/// Whether the failure of the first delivery is stored: the next attempt is due within seconds.
const ATTEMPTED: &str = "select exists (select from webhook_delivery where state = 'due' and attempts > 0 \
    and next_attempt_at < noted_at + interval '30 seconds')";

/// One request to the address, as a receiver of Standard Webhooks reads it.
#[derive(Debug, Clone)]
struct Delivery {
    id: String,
    text: Value,
    verified: bool,
}

/// An address that is out of order for the first request of each event.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Vec<Delivery>>>);

impl Receiver {
    fn deliveries(&self) -> Vec<Delivery> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests about events of a type.
    fn of(&self, event: &str) -> Vec<Delivery> {
        self.deliveries().into_iter().filter(|delivery| delivery.text["type"] == event).collect()
    }

    async fn serve(&self) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let router = Router::new().route("/hook", post(receive)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(url)
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let id = header("webhook-id").unwrap_or_default().to_owned();
    let verified = verify(&id, &headers, &body).is_ok();
    let text = serde_json::from_slice(&body).unwrap_or_default();
    let mut deliveries = receiver.0.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = deliveries.iter().all(|earlier| earlier.id != id);
    deliveries.push(Delivery { id, text, verified });
    if is_first { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
}

fn verify(id: &str, headers: &HeaderMap, body: &[u8]) -> Result<()> {
    let header = |name: &str| headers.get(name).context("a header is missing");
    let time = header("webhook-timestamp")?.to_str()?;
    let signature = header("webhook-signature")?.to_str()?;
    let signature = STANDARD.decode(signature.strip_prefix("v1,").context("a version")?)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(KEY)?);
    let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
    let verified = hmac::verify(&key, &signed, &signature);
    ensure!(verified.is_ok(), "the signature is not that of the text");
    Ok(())
}

fn webhooks(url: &str) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
    writeln!(file, "bot {url} default * whsec_{KEY}")?;
    writeln!(file, "other {url} elsewhere * whsec_{KEY}")?;
    Ok(file)
}

#[tokio::test]
async fn a_question_and_the_end_of_its_run_are_told_until_the_address_has_them() -> Result<()> {
    let receiver = Receiver::default();
    let file = webhooks(&receiver.serve().await?)?;
    let (file, tokens) = (file.path().to_string_lossy().into_owned(), (file, token_file()?));
    let token_path = tokens.1.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", token_path.as_str()), ("SURETY_WEBHOOKS_FILE", &file)];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let plan = plan(&[json!({"id": "s", "description": "x", "evidence": "none"})]);
    let driver = v1::Driver::Remote.into();
    let order = v1::CreateRunRequest { driver, ..request(&plan, "") };
    // The pause that a person asked for is no news for people.
    let paused = deployment.create_run(order.clone()).await?.id;
    let pause = v1::PauseRunRequest { run_id: paused, ..v1::PauseRunRequest::default() };
    deployment.runs()?.pause_run(pause).await?;
    let run_id = deployment.create_run(order).await?.id;
    let agent = Agent::new(deployment.executors.first().context("an executor")?, AGENT, "w")?;
    let work = agent.work(&run_id).await?;
    let ask = json!({"action": "ask_user", "speak": "Which name?"}).to_string();
    agent.submit(&work, &ask).await?;
    let question = deployment.question(&run_id).await?;

    wait_until("the address was asked once", || !receiver.of("wait.opened").is_empty()).await?;
    // A planner that dies in the midst of a delivery leaves it to others only after a minute.
    let rows = deployment.database.pool().await?;
    wait_for_yes(&rows, ATTEMPTED).await?;
    rows.close().await;
    // What was noted is delivered by any planner.
    deployment.replace_planner().await?;
    wait_until("it was asked again", || receiver.of("wait.opened").len() == 2).await?;
    deployment.answer(&question.wait_id, "out.txt").await?;
    let work = agent.work(&run_id).await?;
    agent.take_turns(work, &[next_plan()]).await?;
    deployment.wait_for_end(&run_id).await?;
    wait_until("it heard of the end", || receiver.of("run.ended").len() == 2).await?;

    let opened = receiver.of("wait.opened");
    let data = &opened.first().context("a message")?.text["data"];
    assert_eq!(data["run_id"], run_id);
    assert_eq!(data["wait_id"], question.wait_id);
    assert_eq!(data["kind"], "question");
    assert_eq!(data["question"], "Which name?");
    let ended = receiver.of("run.ended");
    let data = &ended.first().context("a message")?.text["data"];
    assert_eq!(data["run_id"], run_id);
    assert_eq!(data["stop_reason"], "accepted", "{data}");
    for deliveries in [&opened, &ended] {
        assert!(deliveries.iter().all(|one| one.verified), "{deliveries:#?}");
        assert!(deliveries.iter().all(|one| one.id == deliveries[0].id), "{deliveries:#?}");
    }
    assert_eq!(
        receiver.deliveries().len(),
        4,
        "another namespace, or the pause: {:#?}",
        receiver.deliveries()
    );
    deployment.finish().await
}

#[tokio::test]
async fn a_plan_that_no_agent_makes_is_told_of() -> Result<()> {
    let receiver = Receiver::default();
    let file = webhooks(&receiver.serve().await?)?;
    let (path, tokens) = (file.path().to_string_lossy().into_owned(), token_file()?);
    let token_path = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", token_path.as_str()), ("SURETY_WEBHOOKS_FILE", &path)];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    let order = v1::CreateRunRequest { goal: "a plan is to come".to_owned(), ..Default::default() };
    let unplanned = deployment.create_run(order.clone()).await?.id;
    let planned = deployment.create_run(order).await?.id;
    let token = Token::new(&secret(AGENT))?;
    let mut agent = PlannerServiceClient::new(channel(&deployment.planner.url(), Some(&token))?);
    let lease = v1::LeasePlanRequest {
        planner_id: "planner".to_owned(),
        run_id: planned.clone(),
        wait: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        ..v1::LeasePlanRequest::default()
    };
    let leased = agent.lease_plan(lease).await?.into_inner().lease;
    ensure!(leased.is_some(), "the plan is offered");
    // Nothing is told before an agent has had its time.
    let rows = deployment.database.pool().await?;
    let seen =
        "select exists (select from webhook where seen_until > (select max(opened_at) from wait))";
    wait_for_yes(&rows, seen).await?;
    ensure!(receiver.deliveries().is_empty(), "{:#?}", receiver.deliveries());
    sqlx::query("update wait set opened_at = opened_at - interval '31 seconds'")
        .execute(&rows)
        .await?;
    rows.close().await;
    // The first request of an event fails.
    wait_until("the plan is told of", || receiver.of("wait.opened").len() == 2).await?;
    for delivery in receiver.deliveries() {
        let data = &delivery.text["data"];
        assert_eq!((&data["run_id"], &data["kind"]), (&json!(unplanned), &json!("plan")), "{data}");
    }
    for run_id in [unplanned, planned] {
        let cancel = v1::CancelRunRequest { run_id, ..v1::CancelRunRequest::default() };
        deployment.runs()?.cancel_run(cancel).await?;
    }
    deployment.finish_at_rest().await.map(drop)
}

/// An address that takes requests and never answers.
#[derive(Clone, Default)]
struct Silent(Arc<Mutex<(usize, usize)>>);

impl Silent {
    /// The requests that came, and those that were given up.
    fn counts(&self) -> (usize, usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let router = Router::new().route("/hook", post(hold)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(url)
    }
}

/// Counts a request as given up once it is dropped.
struct Held(Silent);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
    }
}

async fn hold(State(silent): State<Silent>, _body: Bytes) -> StatusCode {
    silent.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
    let _held = Held(silent);
    std::future::pending().await
}

#[tokio::test]
async fn an_address_that_never_answers_delays_no_other() -> Result<()> {
    let (receiver, silent) = (Receiver::default(), Silent::default());
    let mut file = webhooks(&receiver.serve().await?)?;
    writeln!(file, "silent {} default wait.opened whsec_{KEY}", silent.serve().await?)?;
    let (path, tokens) = (file.path().to_string_lossy().into_owned(), token_file()?);
    let token_path = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", token_path.as_str()), ("SURETY_WEBHOOKS_FILE", &path)];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let agent = Agent::new(deployment.executors.first().context("an executor")?, AGENT, "w")?;
    let ask = async || -> Result<String> {
        let plan = plan(&[json!({"id": "s", "description": "x", "evidence": "none"})]);
        let driver = v1::Driver::Remote.into();
        let order = v1::CreateRunRequest { driver, ..request(&plan, "") };
        let run_id = deployment.create_run(order).await?.id;
        let work = agent.work(&run_id).await?;
        agent.submit(&work, &json!({"action": "ask_user", "speak": "Which?"}).to_string()).await?;
        Ok(deployment.question(&run_id).await?.wait_id)
    };
    ask().await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        ensure!(Instant::now() < deadline, "nothing is told while the address holds a request");
        wait_until("the address holds a request", || {
            let (came, ended) = silent.counts();
            came > ended
        })
        .await?;
        let (_, before) = silent.counts();
        let wait_id = ask().await?;
        let arrived = || {
            receiver.deliveries().iter().any(|delivery| delivery.text["data"]["wait_id"] == wait_id)
        };
        wait_until("the other address is told", arrived).await?;
        // On a slow machine the request may have been given up meanwhile.
        if silent.counts().1 == before {
            break;
        }
    }
    deployment.finish().await
}
