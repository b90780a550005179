//! `surety migrate [--roles]`

use chrono::Utc;
use clap::Args;
use surety_common::config::{CommonConfig, RetentionConfig};
use surety_common::store::{self, PoolSize, Retention, SERVICE_ROLES, StoreError};

use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::wire_json::{object, text};

/// Migrates the schema of a database as its owner, and keeps the partitions of its journal. With a database role for
/// each service, run it once a day too: no service may make partitions then.
#[derive(Debug, Args)]
pub struct Migrate {
    /// Also make the roles surety_planner, surety_executor and surety_gate, each with the rights of its service only.
    /// They have no password; set one, or another way to log in, for each.
    #[arg(long)]
    roles: bool,

    #[command(flatten)]
    retention: RetentionConfig,

    #[command(flatten)]
    common: Box<CommonConfig>,
}

/// What was done.
struct Migrated {
    version: i64,
    /// Whether every partition that is needed is there.
    is_prepared: bool,
    /// The partitions that were dropped.
    dropped: u32,
}

impl Migrate {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let Some(url) = self.common.service_database()? else {
            let advice = "Name the database, as a role that owns its schema.";
            let failure = Failure::new(Code::SettingInvalid, "no database is named", advice);
            return Err(failure.at("--database-url"));
        };
        let failed = |error: StoreError| {
            let advice = match error.is_transient() {
                true => {
                    "Start the database, or name another one with --database-url (DATABASE_URL)."
                }
                false => {
                    "Connect as a role that owns the schema and, with --roles, may create roles."
                }
            };
            Failure::new(Code::DatabaseUnusable, error.to_string(), advice)
        };
        let pool = store::connect(&url, PoolSize::of(&self.common)).await.map_err(failed)?;
        let done = self.carry_out(&pool).await.map_err(failed);
        pool.close().await;
        let Migrated { version, is_prepared, dropped } = done?;
        let roles = if self.roles { SERVICE_ROLES.join(", ") } else { String::new() };
        let prepared = match is_prepared {
            true => "made in advance",
            false => "the journal was locked; run `surety migrate` again",
        };
        let value = object([
            ("schema_version", text(version.to_string())),
            ("roles", text(roles.clone())),
            ("partitions", text(prepared)),
            ("dropped_partitions", text(dropped.to_string())),
        ]);
        output.either(&value, || {
            let mut lines = vec![format!("the schema has version {version}")];
            lines.extend((!roles.is_empty()).then(|| format!("roles  {roles}")));
            lines.push(format!("partitions of the journal  {prepared}, {dropped} dropped"));
            lines.join("\n")
        })?;
        Ok(Exit::Done)
    }

    async fn carry_out(&self, pool: &sqlx::PgPool) -> Result<Migrated, StoreError> {
        store::migrate(pool).await?;
        if self.roles {
            store::make_service_roles(pool).await?;
        }
        let (retention, now) = (Retention::of(&self.retention), Utc::now());
        let is_prepared = store::prepare_partitions(pool, now, retention.partition_width()).await?;
        let dropped = match retention.before(now) {
            Some(before) => store::drop_partitions(pool, before).await?,
            None => 0,
        };
        let version = store::schema_version(pool).await?;
        Ok(Migrated { version, is_prepared, dropped })
    }
}
