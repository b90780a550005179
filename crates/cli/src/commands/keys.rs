//! `surety keys list|rotate|pin|export`

use std::path::PathBuf;

use chrono::Utc;
use clap::{Args, Subcommand};
use surety_common::config::{CommonConfig, DataDirConfig};
use surety_common::domain::json::Value;
use surety_common::domain::signature::{PublicKey, Service, TrustedKey, TrustedKeys, instant};
use surety_common::keys::{random_key, read_secret_key, read_trusted_keys, replace_key, trust_key};
use surety_common::store::{self, PoolSize, RegisteredKey};

use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::Output;
use crate::text::columns;
use crate::wire_json::{object, text};

/// Lists, replaces and trusts the keys that services sign with.
#[derive(Debug, Args)]
pub struct Keys {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// List the trusted keys, and with --database-url the keys that services registered.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Make a new key for a service. It is trusted first, and the running service signs with it within a second; the
    /// old key stays valid for ten minutes more.
    Rotate {
        /// planner, executor, gate, or user for the verdict files of `surety verify`.
        #[arg(value_name = "SERVICE", value_parser = read_service)]
        service: Service,

        /// The key file of the service; by default the one in the data folder.
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,

        #[command(flatten)]
        place: Place,
    },
    /// Trust a key: one that a service registered in the database, or the keys of an exported file.
    Pin {
        /// The id of a registered key, which needs --database-url, or a file that `surety keys export` wrote.
        #[arg(value_name = "KEY_ID|FILE")]
        what: String,

        #[command(flatten)]
        place: Place,
    },
    /// Print the trusted keys as a file for others, such as an auditor.
    Export {
        #[command(flatten)]
        place: Place,
    },
}

/// Where keys are.
#[derive(Debug, Args)]
struct Place {
    #[command(flatten)]
    common: Box<CommonConfig>,

    #[command(flatten)]
    folder: DataDirConfig,
}

fn read_service(text: &str) -> Result<Service, String> {
    Service::from_text(text).ok_or_else(|| "none of planner, executor, gate and user".to_owned())
}

impl Keys {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            KeysCommand::List { place } => list(&place, output).await,
            KeysCommand::Rotate { service, key_file, place } => {
                rotate(service, key_file, &place, output)
            }
            KeysCommand::Pin { what, place } => pin(&what, &place, output).await,
            KeysCommand::Export { place } => {
                let keys = read_trusted_keys(&place.trusted()?)?;
                output.line(keys.to_text().trim_end())?;
                Ok(Exit::Done)
            }
        }
    }
}

impl Place {
    /// The file of trusted keys: the configured one, else the data folder's.
    fn trusted(&self) -> Result<PathBuf, Failure> {
        match &self.common.trusted_keys_file {
            Some(file) => Ok(file.clone()),
            None => Ok(DataFolder::choose(&self.folder)?.trusted_keys()),
        }
    }

    /// The keys that services registered; none without a database.
    async fn registered(&self) -> Result<Vec<RegisteredKey>, Failure> {
        let Some(url) = &self.common.database_url else { return Ok(Vec::new()) };
        let failed = |error: store::StoreError| {
            Failure::new(
                Code::DatabaseUnusable,
                error.to_string(),
                "Check --database-url (DATABASE_URL).",
            )
        };
        let pool =
            store::connect(url.expose(), PoolSize::of(&self.common)).await.map_err(failed)?;
        let keys = store::registered_keys(&pool).await.map_err(failed);
        pool.close().await;
        keys
    }
}

async fn list(place: &Place, output: Output) -> Result<Exit, Failure> {
    let file = place.trusted()?;
    let trusted = if file.exists() { read_trusted_keys(&file)? } else { TrustedKeys::default() };
    let registered = place.registered().await?;
    let is_known = |found: &RegisteredKey| {
        trusted.keys().iter().any(|key| key.key == found.key && key.service == found.service)
    };
    let mut rows: Vec<[String; 5]> = trusted.keys().iter().map(|key| row(key, "trusted")).collect();
    rows.extend(registered.iter().filter(|key| !is_known(key)).map(|found| {
        let RegisteredKey { service, key, valid_from } = *found;
        row(&TrustedKey { service, key, valid_from, valid_until: None }, "registered only")
    }));
    let names = ["key", "service", "valid_from", "valid_until", "state"];
    let value = |row: &[String; 5]| {
        let members = names.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), text(cell)));
        Value::Object(members.collect())
    };
    output.either(&Value::Array(rows.iter().map(value).collect()), || {
        let header = ["KEY", "SERVICE", "VALID FROM", "VALID UNTIL", "STATE"];
        columns(&header, rows.iter().map(|row| row.to_vec()).collect())
    })?;
    Ok(Exit::Done)
}

fn row(key: &TrustedKey, state: &str) -> [String; 5] {
    let until = key.valid_until.map_or_else(|| "-".to_owned(), instant);
    let id = key.key.id().to_string();
    [id, key.service.to_string(), instant(key.valid_from), until, state.to_owned()]
}

/// The new key is trusted before it signs, so that nothing is signed with a key that a reader does not know.
fn rotate(
    service: Service,
    key_file: Option<PathBuf>,
    place: &Place,
    output: Output,
) -> Result<Exit, Failure> {
    let path = match key_file {
        Some(path) => path,
        None => DataFolder::choose(&place.folder)?.key(service),
    };
    let old = read_secret_key(&path)?.public();
    let key = random_key(&path)?;
    trust_key(&place.trusted()?, (service, key.public()), true, Utc::now())?;
    replace_key(&path, &key)?;
    let id = |key: PublicKey| key.id().to_string();
    let value = object([
        ("service", text(service.as_str())),
        ("key_id", text(id(key.public()))),
        ("replaced", text(id(old))),
    ]);
    output.either(&value, || {
        format!(
            "the {service} signs with {} from now on, and no longer with {}",
            id(key.public()),
            id(old)
        )
    })?;
    Ok(Exit::Done)
}

async fn pin(what: &str, place: &Place, output: Output) -> Result<Exit, Failure> {
    let file = place.trusted()?;
    let path = PathBuf::from(what);
    let found: Vec<(Service, PublicKey)> = if path.exists() {
        read_trusted_keys(&path)?.keys().iter().map(|key| (key.service, key.key)).collect()
    } else {
        let registered = place.registered().await?;
        let named = registered.into_iter().filter(|key| key.key.id().to_string() == what);
        named.map(|key| (key.service, key.key)).collect()
    };
    if found.is_empty() {
        let message = format!("no key {what:?} is registered, and no such file exists");
        let advice = "List registered keys with `surety keys list --database-url URL`.";
        return Err(Failure::new(Code::ValueInvalid, message, advice));
    }
    for key in &found {
        trust_key(&file, *key, false, Utc::now())?;
    }
    let ids = found.iter().map(|(_, key)| text(key.id().to_string()));
    let value = object([("trusted", Value::Array(ids.collect()))]);
    output.either(&value, || {
        let line =
            |(service, key): &(Service, PublicKey)| format!("trusted  {}  {service}", key.id());
        found.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}
