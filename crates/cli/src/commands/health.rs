//! `surety health URL`

use clap::Args;
use surety_common::config::ClientTlsConfig;
use surety_common::wire::client::Transport;

use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::health::serving;
use crate::output::Output;
use crate::wire_json::{object, text};

/// Asks a service whether it is serving: exits with 0 if it is, with 1 if not.
#[derive(Debug, Args)]
pub struct Health {
    /// The service's address, such as http://127.0.0.1:7401.
    url: String,
    #[command(flatten)]
    tls: ClientTlsConfig,
}

impl Health {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let transport = Transport::of_client(&self.tls)?;
        if !serving(&self.url, &transport).await? {
            return Err(Failure::new(
                Code::NotServing,
                format!("{} is not serving", self.url),
                "It is starting, shutting down or waiting for its database; its log says which.",
            ));
        }
        let value = object([("url", text(&self.url)), ("status", text("serving"))]);
        output.either(&value, || format!("{} serves", self.url))?;
        Ok(Exit::Done)
    }
}
