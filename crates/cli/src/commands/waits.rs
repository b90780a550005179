//! `surety waits`

use clap::Args;
use clap::builder::PossibleValuesParser;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::report;
use crate::wire_json;

/// The most waits in a page.
const PAGE_SIZE: u32 = 1_000;
/// What a wait can be for.
const PARTIES: [&str; 8] =
    ["user", "approver", "operator", "model", "driver", "worker", "timer", "workspace"];

/// Lists the waits of runs, oldest first.
#[derive(Debug, Args)]
pub struct Waits {
    /// Only waits of this namespace.
    #[arg(long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Only waits of this run: an id, a unique beginning of one, or `last`.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    /// Only waits for one of these parties.
    #[arg(long, value_name = "PARTY", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(PARTIES))]
    on: Vec<String>,

    #[command(flatten)]
    client: ClientConfig,
}

impl Waits {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let run_id = match &self.run {
            Some(named) => connection.resolve(named).await?,
            None => String::new(),
        };
        let parties = self.on.iter().filter_map(|party| {
            let name = format!("WAITING_ON_{}", party.to_ascii_uppercase());
            v1::WaitingOn::from_str_name(&name).map(i32::from)
        });
        let mut request = v1::ListWaitsRequest {
            namespace: self.namespace,
            run_id,
            waiting_on: parties.collect(),
            page_size: PAGE_SIZE,
            ..Default::default()
        };
        let mut waits = Vec::new();
        loop {
            let answer = connection.runs().list_waits(bounded(request.clone())).await;
            let page = answer.map_err(|status| connection.failure(&status))?.into_inner();
            waits.extend(page.waits);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        if output.json {
            output.value(&wire_json::list("Wait", &waits))?;
        } else if waits.is_empty() {
            note("No run is waiting.");
        } else {
            output.line(&report::waits(&waits))?;
        }
        Ok(Exit::Done)
    }
}
