//! `surety migrate [--roles]`

use clap::Args;
use surety_common::config::CommonConfig;
use surety_common::store::{self, PoolSize, SERVICE_ROLES, StoreError};

use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::wire_json::{object, text};

/// Migrates the schema of a database as its owner.
#[derive(Debug, Args)]
pub struct Migrate {
    /// Also make the roles surety_planner, surety_executor and surety_gate, each with the rights of its service only.
    /// They have no password; set one, or another way to log in, for each.
    #[arg(long)]
    roles: bool,

    #[command(flatten)]
    common: Box<CommonConfig>,
}

impl Migrate {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let Some(url) = self.common.service_database()? else {
            let advice = "Name the database, as a role that owns its schema.";
            let failure = Failure::new(Code::SettingInvalid, "no database is named", advice);
            return Err(failure.at("--database-url"));
        };
        let failed = |error: StoreError| {
            let advice =
                "Connect as a role that owns the schema and, with --roles, may create roles.";
            Failure::new(Code::DatabaseUnusable, error.to_string(), advice)
        };
        let pool = store::connect(&url, PoolSize::of(&self.common)).await.map_err(failed)?;
        let done = self.carry_out(&pool).await.map_err(failed);
        pool.close().await;
        let version = done?;
        let roles = if self.roles { SERVICE_ROLES.join(", ") } else { String::new() };
        let value =
            object([("schema_version", text(version.to_string())), ("roles", text(roles.clone()))]);
        output.either(&value, || match roles.as_str() {
            "" => format!("the schema has version {version}"),
            roles => format!("the schema has version {version}\nroles  {roles}"),
        })?;
        Ok(Exit::Done)
    }

    async fn carry_out(&self, pool: &sqlx::PgPool) -> Result<i64, StoreError> {
        store::migrate(pool).await?;
        if self.roles {
            store::make_service_roles(pool).await?;
        }
        store::schema_version(pool).await
    }
}
