//! `surety tokens create|list|revoke|rotate`

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use surety_common::config::ClientConfig;
use surety_common::domain::identity::{EVERY_NAMESPACE, Role};
use surety_common::wire::admin::read_role;
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::text::{columns, day_and_time, harmless};
use crate::wire_json;

/// Tokens on one page at most.
const PAGE_SIZE: u32 = 1_000;

/// Makes, lists and ends bearer tokens.
#[derive(Debug, Args)]
pub struct Tokens {
    #[command(subcommand)]
    command: TokensCommand,
}

#[derive(Debug, Subcommand)]
enum TokensCommand {
    /// Make a token and print it once.
    Create(Create),
    /// List the tokens whose namespaces you reach.
    List {
        #[command(flatten)]
        client: Box<ClientConfig>,
    },
    /// End a token within a second.
    Revoke {
        /// The token's id, from `surety tokens list`.
        #[arg(value_name = "TOKEN_ID")]
        token_id: String,

        #[command(flatten)]
        client: Box<ClientConfig>,
    },
    /// Make a new token for the identity of an old one and print it once.
    Rotate {
        /// The id of the token to replace.
        #[arg(value_name = "TOKEN_ID")]
        token_id: String,

        /// How long the old one stays valid, such as 90s, 30m, 12h or 7d; without it, not at all.
        #[arg(long, value_parser = read_duration)]
        grace: Option<Duration>,

        /// Your own name for this call: a repeat makes no second token.
        #[arg(long, default_value = "", hide_default_value = true)]
        request_id: String,

        #[command(flatten)]
        client: Box<ClientConfig>,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// The name of the identity, under which its calls are recorded.
    #[arg(value_name = "NAME")]
    name: String,

    /// What it is trusted with: viewer, submitter, operator, approver, driver, worker, service.
    #[arg(long, required = true, value_delimiter = ',', value_parser = Role::from_str)]
    role: Vec<Role>,

    /// Where, without it everywhere.
    #[arg(long, value_delimiter = ',', default_value = EVERY_NAMESPACE)]
    namespace: Vec<String>,

    /// How long it is valid, such as 90s, 30m, 12h or 7d; without it for ever.
    #[arg(long, value_parser = read_duration)]
    valid_for: Option<Duration>,

    /// Your own name for this call: a repeat makes no second token.
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

impl Tokens {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            TokensCommand::Create(create) => create.run(output).await,
            TokensCommand::List { client } => list(&client, output).await,
            TokensCommand::Revoke { token_id, client } => revoke(&client, token_id, output).await,
            TokensCommand::Rotate { token_id, grace, request_id, client } => {
                let grace = grace.map(wire_duration);
                let request = v1::RotateTokenRequest { request_id, token_id, grace };
                let connection = Connection::open(&client)?;
                let answer = connection.admin().rotate_token(bounded(request)).await;
                let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
                printed(
                    &wire_json::message("RotateTokenResponse", &answer),
                    answer.token.unwrap_or_default(),
                    &answer.secret,
                    output,
                )
            }
        }
    }
}

impl Create {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let request = v1::CreateTokenRequest {
            request_id: self.request_id,
            name: self.name,
            roles: self.role.into_iter().map(|role| v1::Role::from(role).into()).collect(),
            namespaces: self.namespace,
            valid_for: self.valid_for.map(wire_duration),
        };
        let answer = connection.admin().create_token(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        printed(
            &wire_json::message("CreateTokenResponse", &answer),
            answer.token.unwrap_or_default(),
            &answer.secret,
            output,
        )
    }
}

/// The secret alone goes to standard output, so that it can be sent into a file.
fn printed(
    value: &surety_common::domain::json::Value,
    token: v1::AccessToken,
    secret: &str,
    output: Output,
) -> Result<Exit, Failure> {
    if output.json {
        output.value(value)?;
        return Ok(Exit::Done);
    }
    let about = format!("token {} of {} ({})", token.id, harmless(&token.name), roles(&token));
    if secret.is_empty() {
        note(&format!("{about} was made by an earlier call, which printed its secret"));
    } else {
        note(&format!("{about}; this is the only time that its secret is printed"));
        output.line(secret)?;
    }
    Ok(Exit::Done)
}

async fn list(client: &ClientConfig, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(client)?;
    let mut request = v1::ListTokensRequest { page_size: PAGE_SIZE, page_token: String::new() };
    let mut tokens = Vec::new();
    loop {
        let answer = connection.admin().list_tokens(bounded(request.clone())).await;
        let page = answer.map_err(|status| connection.failure(&status))?.into_inner();
        tokens.extend(page.tokens);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    output.either(&wire_json::list("AccessToken", &tokens), || table(&tokens))?;
    Ok(Exit::Done)
}

async fn revoke(client: &ClientConfig, token_id: String, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(client)?;
    let answer = connection
        .admin()
        .revoke_token(bounded(v1::RevokeTokenRequest { token_id, ..Default::default() }))
        .await;
    let token = answer.map_err(|status| connection.failure(&status))?.into_inner().token;
    let token = token.unwrap_or_default();
    let said = || format!("token {} of {} is revoked", token.id, harmless(&token.name));
    output.either(&wire_json::message("AccessToken", &token), said)?;
    Ok(Exit::Done)
}

fn table(tokens: &[v1::AccessToken]) -> String {
    let row = |token: &v1::AccessToken| {
        let state = match (&token.revoked_at, &token.expires_at) {
            (Some(at), _) => format!("revoked {}", day_and_time(Some(at))),
            (None, Some(at)) => format!("until {}", day_and_time(Some(at))),
            (None, None) => "valid".to_owned(),
        };
        vec![
            token.id.clone(),
            harmless(&token.name),
            roles(token),
            harmless(&token.namespaces.join(",")),
            state,
            day_and_time(token.last_used_at.as_ref()),
        ]
    };
    let heads = ["ID", "NAME", "ROLES", "NAMESPACES", "STATE", "LAST USED"];
    columns(&heads, tokens.iter().map(row).collect())
}

fn roles(token: &v1::AccessToken) -> String {
    let word = |number: &i32| read_role(*number).map_or("unknown", Role::as_str);
    token.roles.iter().map(word).collect::<Vec<_>>().join(",")
}

pub(super) fn wire_duration(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: 0 }
}

/// A whole number and one of the units s, m, h and d.
pub(super) fn read_duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is no duration; write it as 90s, 30m, 12h or 7d");
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(refused)?;
    let count: u64 = digits.parse().map_err(|_| refused())?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(refused()),
    };
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        let cases = [("90s", 90), ("30m", 1_800), ("12h", 43_200), ("7d", 604_800)];
        for (text, seconds) in cases {
            assert_eq!(read_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "7", "7w", "-1s", "1.5h", "é", "99999999999999999999d"] {
            assert!(read_duration(text).is_err(), "{text:?}");
        }
    }
}
