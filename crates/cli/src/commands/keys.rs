//! `surety keys list|make|rotate|pin|export`

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use surety_common::config::{CommonConfig, ConfigError, DataDirConfig, KeyFilesConfig};
use surety_common::domain::json::Value;
use surety_common::domain::signature::{PublicKey, Service, TrustedKey, TrustedKeys, instant};
use surety_common::keys::{
    KeyFile, Rotated, read_trusted_keys, registered_since, rotate_key, trust_key, trust_keys,
};
use surety_common::store::{self, PoolSize, RegisteredKey};

use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::Output;
use crate::text::columns;
use crate::verify::unusable_user_key;
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
    /// Make the key of a service where its file is missing, and trust the key in the file. What it signed before is not
    /// trusted.
    Make(KeyOf),
    /// Replace the key of a service, which must be trusted. The new one is trusted first, and the running service signs with it within a second; the
    /// old key stays valid for ten minutes more. Other keys of the service do not end.
    Rotate(KeyOf),
    /// Trust a key for its times: one that a service registered in the database, or the keys of an exported file.
    Pin {
        /// The id of a registered key, which needs --database-url, or a file that `surety keys export` wrote.
        #[arg(value_name = "KEY_ID|FILE")]
        what: String,

        /// What the key may sign: the service whose log shows the id. Needed for an id that is registered for several
        /// services; of a file, only the keys of this service are trusted.
        #[arg(long, value_name = "SERVICE", value_parser = read_service)]
        service: Option<Service>,

        /// Since when what the key signed counts, RFC 3339; by default the time in the file, or of the registration.
        #[arg(long, value_name = "TIME", value_parser = read_time)]
        from: Option<DateTime<Utc>>,

        #[command(flatten)]
        place: Place,
    },
    /// Print the trusted keys as a file for others, such as an auditor.
    Export {
        #[command(flatten)]
        place: Place,
    },
}

/// The key of a service.
#[derive(Debug, Args)]
struct KeyOf {
    /// planner, executor, gate, or user for the verdict files of `surety verify`.
    #[arg(value_name = "SERVICE", value_parser = read_service)]
    service: Service,

    /// The key file of the service; by default that of SURETY_PLANNER_KEY_FILE, SURETY_EXECUTOR_KEY_FILE or
    /// SURETY_GATE_KEY_FILE, else the one in the data folder.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    #[command(flatten)]
    set: KeyFilesConfig,

    #[command(flatten)]
    place: Place,
}

impl KeyOf {
    fn path(&self) -> Result<PathBuf, Failure> {
        match self.key_file.as_deref().or_else(|| self.set.of(self.service)) {
            Some(path) => Ok(path.to_owned()),
            None => Ok(DataFolder::choose(&self.place.folder)?.key(self.service)),
        }
    }
}

/// Where keys are.
#[derive(Debug, Args)]
struct Place {
    #[command(flatten)]
    common: Box<CommonConfig>,

    #[command(flatten)]
    folder: DataDirConfig,
}

fn read_time(text: &str) -> Result<DateTime<Utc>, String> {
    let read = DateTime::parse_from_rfc3339(text).map(|at| at.to_utc());
    read.map_err(|_| "no RFC 3339 time, such as 2026-05-01T00:00:00Z".to_owned())
}

fn read_service(text: &str) -> Result<Service, String> {
    Service::from_text(text).ok_or_else(|| "none of planner, executor, gate and user".to_owned())
}

impl Keys {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            KeysCommand::List { place } => list(&place, output).await,
            KeysCommand::Make(key) => make(&key, output),
            KeysCommand::Rotate(key) => rotate(&key, output),
            KeysCommand::Pin { what, service, from, place } => {
                pin(&what, (service, from), &place, output).await
            }
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
        DataFolder::trusted_keys_of(self.common.trusted_keys_file.as_deref(), &self.folder)
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
    let now = Utc::now();
    let state = |key: &TrustedKey| match key.valid_until {
        Some(until) if until <= now => "ended",
        Some(_) | None => "trusted",
    };
    let mut rows: Vec<[Option<String>; 5]> =
        trusted.keys().iter().map(|key| row(key, state(key))).collect();
    rows.extend(registered.iter().filter(|key| !is_known(key)).map(|found| {
        let RegisteredKey { service, key, valid_from, valid_until } = *found;
        row(&TrustedKey { service, key, valid_from, valid_until }, "registered only")
    }));
    let names = ["key", "service", "valid_from", "valid_until", "state"];
    let value = |row: &[Option<String>; 5]| {
        let cell = |cell: &Option<String>| cell.as_ref().map_or(Value::Null, text);
        let members = names.iter().zip(row).map(|(name, it)| ((*name).to_owned(), cell(it)));
        Value::Object(members.collect())
    };
    output.either(&Value::Array(rows.iter().map(value).collect()), || {
        let header = ["KEY", "SERVICE", "VALID FROM", "VALID UNTIL", "STATE"];
        let shown = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "-".to_owned());
        columns(&header, rows.iter().map(|row| row.iter().map(shown).collect()).collect())
    })?;
    Ok(Exit::Done)
}

/// The columns of a key; the end is absent where it has none.
fn row(key: &TrustedKey, state: &str) -> [Option<String>; 5] {
    let until = key.valid_until.map(instant);
    let (id, service) = (key.key.id().to_string(), key.service.to_string());
    [Some(id), Some(service), Some(instant(key.valid_from)), until, Some(state.to_owned())]
}

/// A key that cannot be used: what to do depends on the service that has it.
fn unusable(service: Service, error: ConfigError) -> Failure {
    match service {
        Service::User => unusable_user_key(error),
        Service::Planner | Service::Executor | Service::Gate => error.into(),
    }
}

/// A key that the file of trusted keys has keeps its times.
fn make(key: &KeyOf, output: Output) -> Result<Exit, Failure> {
    let (service, now) = (key.service, Utc::now());
    let path = key.path()?;
    let public = KeyFile::open_or_make(&path).map_err(|error| unusable(service, error))?.public();
    let id = public.id().to_string();
    let until = trust_key(&key.place.trusted()?, (service, public), now)?;
    if let Some(until) = until.filter(|until| *until <= now) {
        let (path, until) = (path.display(), instant(until));
        let message = format!("the key {id} in {path} has ended for the {service} at {until}");
        let advice = "Move the key file away, and make another key.";
        return Err(Failure::new(Code::ValueInvalid, message, advice));
    }
    let value = object([
        ("service", text(service.as_str())),
        ("key_id", text(&id)),
        ("valid_until", until.map_or(Value::Null, |until| text(instant(until)))),
    ]);
    let ends = until.map(|until| format!("  until {}", instant(until))).unwrap_or_default();
    output.either(&value, || format!("trusted  {id}  {service}{ends}"))?;
    Ok(Exit::Done)
}

/// The new key is trusted before it signs, so that nothing is signed with a key that a reader does not know.
fn rotate(key: &KeyOf, output: Output) -> Result<Exit, Failure> {
    let service = key.service;
    let rotated = rotate_key(&key.place.trusted()?, (service, &key.path()?), Utc::now());
    let Rotated { old, new } = rotated.map_err(|error| unusable(service, error))?;
    let id = |key: PublicKey| key.id().to_string();
    let value = object([
        ("service", text(service.as_str())),
        ("key_id", text(id(new))),
        ("replaced", text(id(old))),
    ]);
    output.either(&value, || {
        format!("the {service} signs with {} from now on, and no longer with {}", id(new), id(old))
    })?;
    Ok(Exit::Done)
}

/// The service of a registered key is what the database says, so a person names it where there is a choice.
async fn pin(
    what: &str,
    (service, from): (Option<Service>, Option<DateTime<Utc>>),
    place: &Place,
    output: Output,
) -> Result<Exit, Failure> {
    let path = PathBuf::from(what);
    let is_file = path.exists();
    let mut found = if is_file {
        read_trusted_keys(&path)?.keys().to_vec()
    } else {
        let registered = place.registered().await?;
        let named = registered.into_iter().filter(|key| key.key.id().to_string() == what);
        named.map(as_trusted).collect()
    };
    found.retain(|key| service.is_none_or(|service| service == key.service));
    if found.is_empty() {
        let of = service.map(|service| format!(" for the {service}")).unwrap_or_default();
        let message = match is_file {
            true => format!("the file {what:?} has no key{of}"),
            false => format!("no key {what:?} is registered{of}, and no such file exists"),
        };
        let advice = "List registered keys with `surety keys list --database-url URL`.";
        return Err(Failure::new(Code::ValueInvalid, message, advice));
    }
    if !is_file && found.len() > 1 {
        let services: Vec<_> = found.iter().map(|key| key.service.as_str()).collect();
        let message =
            format!("the key {what} is registered for several services: {}", services.join(", "));
        let advice = "Find the service whose log shows the id, and name it with --service.";
        return Err(Failure::new(Code::ValueInvalid, message, advice).at("--service"));
    }
    if let Some(from) = from {
        found.iter_mut().for_each(|key| key.valid_from = from);
    }
    let pinned = trust_keys(&place.trusted()?, &found)?;
    let ids = pinned.iter().map(|key| text(key.key.id().to_string()));
    let value = object([("trusted", Value::Array(ids.collect()))]);
    output.either(&value, || pinned.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Done)
}

fn as_trusted(registered: RegisteredKey) -> TrustedKey {
    let RegisteredKey { service, key, valid_from, valid_until } = registered;
    TrustedKey { service, key, valid_from: registered_since(valid_from, Utc::now()), valid_until }
}

fn line(key: &TrustedKey) -> String {
    let until = key.valid_until.map(|until| format!(" until {}", instant(until)));
    let (id, from) = (key.key.id(), instant(key.valid_from));
    format!("trusted  {id}  {}  from {from}{}", key.service, until.unwrap_or_default())
}
