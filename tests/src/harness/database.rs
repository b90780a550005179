//! A separate database for each test.

use super::overdue::Watched;
use anyhow::{Context, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::path::Path;
use std::str::FromStr;
use surety_common::domain::json::sha256_hex;
use surety_common::store;
use uuid::Uuid;

/// The advisory lock of the test that makes the template.
const TEMPLATE_LOCK: i64 = 0x5375_7265_7479_5465;

/// A database in the cluster that `DATABASE_URL` names; dropped with the value's end.
pub struct Database {
    server: PgConnectOptions,
    name: String,
    url: String,
    _watched: Watched,
}

impl Database {
    /// Makes a fresh database with the schema in it.
    ///
    /// # Errors
    /// `DATABASE_URL` is not set, or its role may not create databases.
    pub async fn create() -> Result<Self> {
        Self::create_on(&cluster()?).await
    }

    /// Makes a fresh database with the schema in it, on the server that `url` names.
    ///
    /// # Errors
    /// The server cannot be reached, or the role may not create databases.
    pub async fn create_on(url: &str) -> Result<Self> {
        let server = PgConnectOptions::from_str(url)?;
        let mut connection = server.connect().await?;
        let template = template(&server, &mut connection).await?;
        let database = Self::named(server, &mut connection, &format!("template {template}")).await;
        connection.close().await?;
        database
    }

    /// Makes a fresh database that is empty: the first service migrates it.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub async fn empty() -> Result<Self> {
        let server = PgConnectOptions::from_str(&cluster()?)?;
        let mut connection = server.connect().await?;
        let database = Self::named(server, &mut connection, "").await;
        connection.close().await?;
        database
    }

    async fn named(
        server: PgConnectOptions,
        connection: &mut PgConnection,
        from: &str,
    ) -> Result<Self> {
        let name = format!("test_{}", Uuid::now_v7().simple());
        // The name is made here, of hex digits only.
        let statement = AssertSqlSafe(format!("create database {name} {from}"));
        sqlx::query(statement).execute(connection).await?;
        let url = server.clone().database(&name).to_url_lossy().to_string();
        Ok(Self { server, url, _watched: Watched::begin(&name), name })
    }

    /// Its address for another role of the server.
    ///
    /// # Errors
    /// The address is none.
    pub fn url_of_role(&self, role: &str) -> Result<String> {
        let options = PgConnectOptions::from_str(&self.url)?.username(role);
        Ok(options.to_url_lossy().to_string())
    }

    /// A database that is made, started and stopped elsewhere.
    ///
    /// # Errors
    /// The address is none.
    pub fn at(url: &str) -> Result<Self> {
        let server = PgConnectOptions::from_str(url)?;
        let name = server.get_database().context("the address names no database")?.to_owned();
        Ok(Self { server, url: url.to_owned(), _watched: Watched::begin(&name), name })
    }

    /// The same behind two addresses, for services that are to follow from the one to the other;
    /// what looks at its rows itself has to know which.
    ///
    /// # Errors
    /// One of the addresses is none.
    pub fn behind(one: &str, other: &str) -> Result<Self> {
        let (scheme, rest) = one.split_once("://").context("an address begins with a scheme")?;
        let (authority, path) = rest.split_once('/').context("the address names no database")?;
        let host = other.split_once('@').and_then(|(_, rest)| rest.split_once('/'));
        let (host, _) = host.context("the other address names no host")?;
        let url = format!("{scheme}://{authority},{host}/{path}?target_session_attrs=read-write");
        Ok(Self { url, ..Self::at(one)? })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A few connections to read its rows.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn pool(&self) -> Result<PgPool> {
        Ok(PgPoolOptions::new().max_connections(3).connect(&self.url).await?)
    }

    /// Drops it, even with open connections.
    ///
    /// # Errors
    /// The server refused.
    pub async fn drop(self) -> Result<()> {
        let mut connection: PgConnection = self.server.connect().await?;
        let statement = format!("drop database if exists {} with (force)", self.name);
        sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
        Ok(())
    }
}

pub(super) fn cluster() -> Result<String> {
    std::env::var("DATABASE_URL").context(
        "DATABASE_URL is not set; run the tests with `make test`, or under \
         `target/debug/surety dev-postgres -- cargo test`",
    )
}

/// The name of a database with the schema of these migrations, which each test copies: to migrate takes longer.
async fn template(server: &PgConnectOptions, connection: &mut PgConnection) -> Result<String> {
    let name = format!("template_{}", &migrations()?[..32]);
    let is_there = "select exists (select from pg_database where datname = $1)";
    if sqlx::query_scalar(is_there).bind(&name).fetch_one(&mut *connection).await? {
        return Ok(name);
    }
    sqlx::query("select pg_advisory_lock($1)")
        .bind(TEMPLATE_LOCK)
        .execute(&mut *connection)
        .await?;
    if !sqlx::query_scalar::<_, bool>(is_there).bind(&name).fetch_one(&mut *connection).await? {
        let made = Database::named(server.clone(), connection, "").await?;
        let pool = made.pool().await?;
        store::migrate(&pool).await?;
        pool.close().await;
        let rename = AssertSqlSafe(format!("alter database {} rename to {name}", made.name));
        sqlx::query(rename).execute(&mut *connection).await?;
    }
    sqlx::query("select pg_advisory_unlock($1)").bind(TEMPLATE_LOCK).execute(connection).await?;
    Ok(name)
}

/// The digest of the migrations.
fn migrations() -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/common/migrations");
    let mut files: Vec<_> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let texts: Vec<_> = files.iter().map(std::fs::read).collect::<Result<_, _>>()?;
    Ok(sha256_hex(&texts.concat()))
}
