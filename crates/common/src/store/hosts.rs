//! A database with several addresses, of which one is the primary:
//! `postgres://role@one:5432,two:5432/name`.

use super::StoreError;
use super::options::prepared;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{ConnectOptions, Connection};
use std::io;
use std::str::FromStr;
use std::time::Duration;
use tokio::time::timeout;

/// How often the primary is checked and, while there is none, all addresses are.
const CHECK_EVERY: Duration = Duration::from_secs(2);
const CHECK_EVERY_WHILE_NONE: Duration = Duration::from_millis(200);
/// The time limit for one address to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The parameter by which other clients request a primary. Only a primary is accepted here, with or
/// without it.
const WANTED: &str = "target_session_attrs";

/// The addresses, in the given order.
#[derive(Debug, Clone)]
pub(super) struct Hosts(Vec<PgConnectOptions>);

impl Hosts {
    /// Parses the addresses in a URL, for the database at `place`.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when it cannot be parsed.
    pub(super) fn read(url: &str, place: usize) -> Result<Self, StoreError> {
        let options = split(url)?
            .iter()
            .map(|url| Ok(prepared(PgConnectOptions::from_str(url)?, place)))
            .collect::<Result<_, sqlx::Error>>()?;
        Ok(Self(options))
    }

    /// The role that logs in.
    pub(super) fn role(&self) -> Option<&str> {
        self.0.first().map(PgConnectOptions::get_username)
    }

    /// The only address, or the first that accepts writes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while none does.
    pub(super) async fn primary(&self) -> Result<PgConnectOptions, StoreError> {
        match self.0.as_slice() {
            [only] => Ok(only.clone()),
            _ => Ok(self.find().await?.0),
        }
    }

    /// Directs a pool's new connections to the current primary. Old connections break with their
    /// server, because a primary becomes a standby only by a restart.
    pub(super) fn follow(self, pool: &PgPool) {
        if self.0.len() > 1 {
            tokio::spawn(follow(self, pool.clone()));
        }
    }

    /// Connects to all addresses at once, and takes the first that accepts writes.
    async fn find(&self) -> Result<(PgConnectOptions, PgConnection), StoreError> {
        let asked = self.0.iter().map(|options| async move {
            let connecting = async {
                let mut connection = options.connect().await?;
                let writable = is_primary(&mut connection).await?;
                Ok::<_, sqlx::Error>(writable.then_some(connection))
            };
            timeout(ANSWER_WITHIN, connecting).await.map_err(|_| sqlx::Error::PoolTimedOut)?
        });
        let mut last = None;
        for (options, answer) in self.0.iter().zip(futures::future::join_all(asked).await) {
            match answer {
                Ok(Some(connection)) => return Ok((options.clone(), connection)),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
        }
        let why = last.map_or_else(|| "all are standbys".to_owned(), |error| error.to_string());
        let message = format!("none of {} addresses accepts writes: {why}", self.0.len());
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, message)).into())
    }
}

async fn is_primary(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select not pg_is_in_recovery() and not current_setting('transaction_read_only')::bool",
    )
    .fetch_one(connection)
    .await
}

/// Checks the primary until the pool is closed.
async fn follow(hosts: Hosts, pool: PgPool) {
    let mut held: Option<PgConnection> = None;
    while !pool.is_closed() {
        let still = match &mut held {
            Some(connection) => timeout(ANSWER_WITHIN, is_primary(connection))
                .await
                .is_ok_and(|is| is.unwrap_or(false)),
            None => false,
        };
        if !still {
            held = None;
            match hosts.find().await {
                Ok((options, connection)) => {
                    tracing::info!(host = options.get_host(), "store: connected to the primary");
                    pool.set_connect_options(options);
                    held = Some(connection);
                }
                Err(error) => {
                    tracing::warn!(%error, "store: no address is a primary that accepts writes; retrying")
                }
            }
        }
        tokio::time::sleep(if held.is_some() { CHECK_EVERY } else { CHECK_EVERY_WHILE_NONE }).await;
    }
    if let Some(connection) = held
        && let Err(error) = connection.close().await
    {
        tracing::debug!(%error, "store: the connection to the primary was already closed");
    }
}

/// Splits a URL into one per address, each with the URL's other parts.
fn split(url: &str) -> Result<Vec<String>, StoreError> {
    let url = without_wanted(url)?;
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(vec![url]) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    Ok(hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect())
}

/// The address without the parameter by which other clients request a primary.
fn without_wanted(url: &str) -> Result<String, StoreError> {
    let Some((base, query)) = url.split_once('?') else { return Ok(url.to_owned()) };
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((WANTED, "read-write" | "primary")) => {}
            Some((WANTED, other)) => {
                let message = format!(
                    "{WANTED}={other} is not supported, because all state is read from the primary; remove it"
                );
                return Err(sqlx::Error::Configuration(message.into()).into());
            }
            Some(_) | None => kept.push(pair),
        }
    }
    Ok(if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_gets_a_url_of_its_own() {
        let cases: [(&str, &[&str]); 6] = [
            ("postgres://u:p@a/n", &["postgres://u:p@a/n"]),
            ("postgres://u@a:1,b:2/n?x=1", &["postgres://u@a:1/n?x=1", "postgres://u@b:2/n?x=1"]),
            ("postgres://a,[::1]:5/n", &["postgres://a/n", "postgres://[::1]:5/n"]),
            (
                "postgres://u@%2Fx:5,b?sslmode=disable",
                &["postgres://u@%2Fx:5?sslmode=disable", "postgres://u@b?sslmode=disable"],
            ),
            (
                "postgres://a,b/n?target_session_attrs=read-write",
                &["postgres://a/n", "postgres://b/n"],
            ),
            ("nonsense", &["nonsense"]),
        ];
        for (url, each) in cases {
            assert_eq!(split(url).unwrap(), each, "{url}");
        }
        let standby = split("postgres://a,b/n?target_session_attrs=standby");
        assert!(matches!(standby, Err(StoreError::Refused { .. })), "{standby:?}");
    }
}
