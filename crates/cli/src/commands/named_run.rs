//! The argument that selects a run.

use surety_common::config::ClientConfig;

use crate::connection::Connection;
use crate::failure::Failure;

/// A run as it is named on the command line.
#[derive(Debug, Clone, clap::Args)]
pub struct NamedRun {
    /// A run's id, a unique beginning of one, or `last`.
    #[arg(value_name = "RUN")]
    pub run: String,
}

impl NamedRun {
    pub(super) async fn find(
        &self,
        client: &ClientConfig,
    ) -> Result<(Connection, String), Failure> {
        let connection = Connection::open(client)?;
        let run_id = connection.resolve(&self.run).await?;
        Ok((connection, run_id))
    }
}
