//! A separate database for each test.

use anyhow::{Context, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::str::FromStr;
use uuid::Uuid;

/// An empty database in the cluster that `DATABASE_URL` names; dropped with the value's end.
pub struct Database {
    server: PgConnectOptions,
    name: String,
    url: String,
}

impl Database {
    /// Makes a fresh database.
    ///
    /// # Errors
    /// `DATABASE_URL` is not set, or its role may not create databases.
    pub async fn create() -> Result<Self> {
        let url = std::env::var("DATABASE_URL").context(
            "DATABASE_URL is not set; run the tests with `make test`, or under \
             `target/debug/surety dev-postgres -- cargo test`",
        )?;
        Self::create_on(&url).await
    }

    /// Makes a fresh database on the server that `url` names.
    ///
    /// # Errors
    /// The server cannot be reached, or the role may not create databases.
    pub async fn create_on(url: &str) -> Result<Self> {
        let server = PgConnectOptions::from_str(url)?;
        let name = format!("test_{}", Uuid::now_v7().simple());
        let mut connection = server.connect().await?;
        // The name is made here, of hex digits only.
        sqlx::query(AssertSqlSafe(format!("create database {name}")))
            .execute(&mut connection)
            .await?;
        connection.close().await?;
        let url = server.clone().database(&name).to_url_lossy().to_string();
        Ok(Self { server, name, url })
    }

    /// A database that is made, started and stopped elsewhere.
    ///
    /// # Errors
    /// The address is none.
    pub fn at(url: &str) -> Result<Self> {
        let server = PgConnectOptions::from_str(url)?;
        let name = server.get_database().context("the address names no database")?.to_owned();
        Ok(Self { server, name, url: url.to_owned() })
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
