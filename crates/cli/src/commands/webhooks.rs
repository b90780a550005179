//! `surety webhooks list|show|replay|hooks|put|remove`

use clap::{Args, Subcommand};
use surety_common::config::ClientConfig;
use surety_common::domain::toolchain::{DeliveryState, Forge};
use surety_common::wire::hook::{read_delivery_state, read_forge};
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{columns, day_and_time, harmless, shortened};
use crate::wire_json;

/// The most characters of a body that `show` prints as text; `--json` prints it whole.
const SHOWN: usize = 20_000;

/// Manages hooks, at which forges deliver events, and the deliveries.
#[derive(Debug, Args)]
pub struct Webhooks {
    #[command(subcommand)]
    command: WebhooksCommand,
}

#[derive(Debug, Subcommand)]
enum WebhooksCommand {
    /// List stored deliveries, newest first, and what became of each.
    List(List),
    /// Show a delivery with its headers and its body.
    Show(One),
    /// Process a stored delivery again; tasks that it made are not made twice.
    Replay(One),
    /// List the hooks.
    Hooks {
        #[command(flatten)]
        client: Box<ClientConfig>,
    },
    /// Make or replace a hook.
    Put(Put),
    /// Delete a hook; its stored deliveries stay.
    Remove {
        /// The hook's name.
        #[arg(value_name = "NAME")]
        name: String,

        #[command(flatten)]
        client: Box<ClientConfig>,
    },
}

#[derive(Debug, Args)]
struct List {
    /// Only deliveries of this hook.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    hook: String,

    /// Only deliveries in one of these states: stored, processed, ignored, refused, repeated, failed.
    #[arg(long, value_delimiter = ',', value_parser = state)]
    state: Vec<DeliveryState>,

    /// The most deliveries, 1..1000.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

#[derive(Debug, Args)]
struct One {
    /// The delivery's id, from `surety webhooks list`.
    #[arg(value_name = "DELIVERY_ID")]
    delivery_id: String,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

#[derive(Debug, Args)]
struct Put {
    /// The hook's name, the last part of its address: /webhooks/FORGE/NAME.
    #[arg(value_name = "NAME")]
    name: String,

    /// The forge: gitea, forgejo or github.
    #[arg(long, value_parser = forge)]
    forge: Forge,

    /// The name of a secret in SURETY_HOOK_SECRETS; a second one while it replaces the first. Without a secret the hook
    /// takes deliveries on loopback only, and by setting.
    #[arg(long, value_name = "SECRET")]
    secret: Vec<String>,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

fn forge(text: &str) -> Result<Forge, String> {
    Forge::from_text(text).ok_or_else(|| "no forge; use gitea, forgejo or github".to_owned())
}

fn state(text: &str) -> Result<DeliveryState, String> {
    let words = || DeliveryState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>();
    DeliveryState::from_text(text).ok_or_else(|| format!("no state; use {}", words().join(", ")))
}

impl Webhooks {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            WebhooksCommand::List(list) => list.run(output).await,
            WebhooksCommand::Show(one) => show(one, output).await,
            WebhooksCommand::Replay(one) => replay(one, output).await,
            WebhooksCommand::Hooks { client } => hooks(&client, output).await,
            WebhooksCommand::Put(put) => put.run(output).await,
            WebhooksCommand::Remove { name, client } => remove(&client, name, output).await,
        }
    }
}

impl List {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let request = v1::ListDeliveriesRequest {
            hook: self.hook,
            states: self.state.into_iter().map(|one| v1::DeliveryState::from(one).into()).collect(),
            page_size: self.limit,
            page_token: String::new(),
        };
        let answer = connection.tasks().list_deliveries(bounded(request)).await;
        let deliveries =
            answer.map_err(|status| connection.failure(&status))?.into_inner().deliveries;
        output.either(&wire_json::list("Delivery", &deliveries), || {
            let heads = ["ID", "HOOK", "EVENT", "RECEIVED", "STATE", "REASON", "TASKS"];
            columns(&heads, deliveries.iter().map(row).collect())
        })?;
        Ok(Exit::Done)
    }
}

fn row(delivery: &v1::Delivery) -> Vec<String> {
    vec![
        delivery.id.clone(),
        harmless(&delivery.hook),
        harmless(&delivery.event),
        day_and_time(delivery.received_at.as_ref()),
        state_word(delivery).to_owned(),
        harmless(&delivery.reason),
        delivery.run_ids.len().to_string(),
    ]
}

fn state_word(delivery: &v1::Delivery) -> &'static str {
    read_delivery_state("state", delivery.state).map_or("unknown", DeliveryState::as_str)
}

async fn show(One { delivery_id, client }: One, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(&client)?;
    let request = v1::GetDeliveryRequest { delivery_id };
    let answer = connection.tasks().get_delivery(bounded(request)).await;
    let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
    output.either(&wire_json::message("GetDeliveryResponse", &answer), || {
        let delivery = answer.delivery.clone().unwrap_or_default();
        let body = String::from_utf8_lossy(&answer.body);
        let problem = match delivery.problem.as_str() {
            "" => String::new(),
            problem => format!("problem: {}\n", harmless(problem)),
        };
        let runs: String = delivery.run_ids.iter().map(|run| format!("task: {run}\n")).collect();
        format!(
            "delivery {} of hook {} ({}, {} bytes)\nstate: {} {}\n{problem}{runs}headers: {}\n\n{}\n",
            delivery.id,
            harmless(&delivery.hook),
            harmless(&delivery.event),
            delivery.body_bytes,
            state_word(&delivery),
            harmless(&delivery.reason),
            harmless(&answer.headers_json),
            shortened(&harmless(&body), SHOWN),
        )
    })?;
    Ok(Exit::Done)
}

async fn replay(One { delivery_id, client }: One, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(&client)?;
    let request = v1::ReplayDeliveryRequest { delivery_id };
    let answer = connection.tasks().replay_delivery(bounded(request)).await;
    let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
    let delivery = answer.delivery.unwrap_or_default();
    let said = || format!("delivery {} is processed again", delivery.id);
    output.either(&wire_json::message("Delivery", &delivery), said)?;
    Ok(Exit::Done)
}

async fn hooks(client: &ClientConfig, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(client)?;
    let answer = connection.tasks().list_hooks(bounded(v1::ListHooksRequest {})).await;
    let hooks = answer.map_err(|status| connection.failure(&status))?.into_inner().hooks;
    output.either(&wire_json::list("Hook", &hooks), || {
        let row = |hook: &v1::Hook| {
            vec![
                harmless(&hook.name),
                address(hook),
                if hook.secrets.is_empty() {
                    "unsigned".to_owned()
                } else {
                    hook.secrets.join(",")
                },
                day_and_time(hook.updated_at.as_ref()),
                harmless(&hook.updated_by),
            ]
        };
        let heads = ["NAME", "PATH", "SECRETS", "CHANGED", "BY"];
        columns(&heads, hooks.iter().map(row).collect())
    })?;
    Ok(Exit::Done)
}

fn address(hook: &v1::Hook) -> String {
    let forge = read_forge("forge", hook.forge).map_or("unknown", Forge::as_str);
    format!("/webhooks/{forge}/{}", harmless(&hook.name))
}

impl Put {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let hook = v1::Hook {
            name: self.name,
            forge: v1::Forge::from(self.forge).into(),
            secrets: self.secret,
            ..v1::Hook::default()
        };
        let answer =
            connection.tasks().put_hook(bounded(v1::PutHookRequest { hook: Some(hook) })).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        let hook = answer.hook.unwrap_or_default();
        let said = || format!("deliveries are taken at {}", address(&hook));
        output.either(&wire_json::message("Hook", &hook), said)?;
        Ok(Exit::Done)
    }
}

async fn remove(client: &ClientConfig, name: String, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(client)?;
    let answer = connection.tasks().delete_hook(bounded(v1::DeleteHookRequest { name })).await;
    let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
    let hook = answer.hook.unwrap_or_default();
    let said = || format!("hook {} is deleted; deliveries are refused", harmless(&hook.name));
    output.either(&wire_json::message("Hook", &hook), said)?;
    Ok(Exit::Done)
}
