//! `surety audit`

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::text::{columns, day_and_time, harmless, one_line};
use crate::wire_json;

/// Events on one page at most.
const PAGE_SIZE: u32 = 1_000;

/// Lists who changed tokens and policies, newest first.
#[derive(Debug, Args)]
pub struct Audit {
    /// At most so many.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,

    #[command(flatten)]
    client: ClientConfig,
}

impl Audit {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let wanted = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let page_size = self.limit.min(PAGE_SIZE);
        let mut request = v1::ListAuditEventsRequest { page_size, page_token: String::new() };
        let mut events = Vec::new();
        loop {
            let answer = connection.admin().list_audit_events(bounded(request.clone())).await;
            let page = answer.map_err(|status| connection.failure(&status))?.into_inner();
            events.extend(page.events);
            if events.len() >= wanted || page.next_page_token.is_empty() {
                events.truncate(wanted);
                break;
            }
            request.page_token = page.next_page_token;
        }
        if events.is_empty() && !output.json {
            note("Nothing was administered yet.");
            return Ok(Exit::Done);
        }
        output.either(&wire_json::list("AuditEvent", &events), || table(&events))?;
        Ok(Exit::Done)
    }
}

fn table(events: &[v1::AuditEvent]) -> String {
    let row = |event: &v1::AuditEvent| {
        vec![
            day_and_time(event.at.as_ref()),
            harmless(&event.identity),
            event.action.clone(),
            harmless(&event.object),
            one_line(&event.before_json),
            one_line(&event.after_json),
        ]
    };
    let heads = ["AT", "IDENTITY", "ACTION", "OBJECT", "BEFORE", "AFTER"];
    columns(&heads, events.iter().map(row).collect())
}
