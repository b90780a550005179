//! `ListWaits`: waits are stored in the rows of their runs, and are paged one by one.

use super::page::Page as Asked;
use super::request;
use crate::shards::Shards;
use prost::Message;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use surety_common::domain::fault::Fault;
use surety_common::domain::problem::{Code, Problem};
use surety_common::store::{WaitFilter, WaitPage};
use surety_common::wire;
use surety_common::wire::v1;
use surety_common::wire::value::id;
use uuid::Uuid;

/// The most pages of runs that are read for one page of waits, when the filter excludes most waits.
const READ_FOR_ONE: usize = 16;
/// The size of a page in bytes, after which it ends.
const PAGE_BYTES: usize = 2 << 20;

/// The wait after which a page begins: ordered by run, then by wait, both of which grow with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    run_id: Uuid,
    wait_id: Uuid,
}

impl Place {
    /// The id after which this run is listed again.
    fn run_before(self) -> Uuid {
        Uuid::from_u128(self.run_id.as_u128().saturating_sub(1))
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = |text: &str| Uuid::parse_str(text).map_err(drop);
        let (run_id, wait_id) = text.split_once('.').ok_or(())?;
        Ok(Self { run_id: read(run_id)?, wait_id: read(wait_id)? })
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run_id, self.wait_id)
    }
}

/// The waits of a page so far.
struct Page {
    asked: Asked,
    start: Option<Place>,
    waiting_on: Vec<i32>,
    most: usize,
    bytes: usize,
    last: Option<Place>,
    waits: Vec<v1::Wait>,
}

/// A page of waits.
///
/// # Errors
/// `page_token_invalid`, `invalid_id`, `type_mismatch`, `database_unavailable`.
pub(super) async fn page(
    shards: &Shards,
    reached: Vec<String>,
    mut request: v1::ListWaitsRequest,
) -> Result<v1::ListWaitsResponse, Fault> {
    let asked = Asked::of(&mut request)?;
    let v1::ListWaitsRequest { namespace, run_id, waiting_on, .. } = request;
    if waiting_on.iter().any(|party| {
        matches!(v1::WaitingOn::try_from(*party), Ok(v1::WaitingOn::Unspecified) | Err(_))
    }) {
        let message = "holds a number that is no party that a run waits for";
        return Err(Problem::at(Code::TypeMismatch, "waiting_on", message).into());
    }
    let run_id = match run_id.as_str() {
        "" => None,
        text => Some(id("run_id", text)?),
    };
    let namespace = request::wanted_namespace(namespace)?;
    let (start, limit) = (asked.after()?, asked.limit);
    let after = start.map(Place::run_before);
    let mut filter = WaitFilter { namespace, reached, run_id, after, limit };
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut page = Page { asked, start, waiting_on, most, bytes: 0, last: None, waits: Vec::new() };
    for _ in 0..READ_FOR_ONE {
        let found = shards.list_waits(&filter).await?;
        if !page.take(&found) {
            return Ok(page.ending_at(page.last));
        }
        match found.next {
            Some(next) => filter.after = Some(next),
            None => return Ok(page.ending_at(None)),
        }
    }
    let next = filter.after.map(|run_id| Place { run_id, wait_id: Uuid::max() });
    Ok(page.ending_at(next))
}

impl Page {
    /// Takes the waits of further runs. Returns false when the page is full.
    fn take(&mut self, found: &WaitPage) -> bool {
        for waiting in &found.waiting {
            let run_id = waiting.run.spec.id;
            let mut waits = wire::run::waits(&waiting.run, &waiting.step_ids);
            waits.sort_by(|one, other| one.id.cmp(&other.id));
            for mut wait in waits {
                let Ok(wait_id) = Uuid::parse_str(&wait.id) else { continue };
                if let Some(report) = waiting.progress.get(&wait_id) {
                    wait.progress.clone_from(&report.message);
                    wait.progress_percent = report.percent.and_then(|it| u32::try_from(it).ok());
                }
                let place = Place { run_id, wait_id };
                let wanted =
                    self.waiting_on.is_empty() || self.waiting_on.contains(&wait.waiting_on);
                if !wanted || self.start.is_some_and(|start| place <= start) {
                    continue;
                }
                if self.waits.len() == self.most || self.bytes > PAGE_BYTES {
                    return false;
                }
                self.bytes += wait.encoded_len();
                self.last = Some(place);
                self.waits.push(wait);
            }
        }
        true
    }

    fn ending_at(&self, next: Option<Place>) -> v1::ListWaitsResponse {
        let next_page_token = self.asked.token(next);
        v1::ListWaitsResponse { waits: self.waits.clone(), next_page_token }
    }
}
