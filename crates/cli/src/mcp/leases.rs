//! What leases of steps and of plans have in common: their heartbeats and the time of their calls.

use std::time::Duration;

use surety_common::clock;
use surety_common::wire::client::ServiceChannel;
use surety_common::wire::v1;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use tokio::task::JoinHandle;
use tonic::Request;

use crate::failure::{Code, Failure};

/// The longest wait for a step in seconds, as the executor allows.
pub(super) const LONGEST_WAIT: u64 = 60;
/// What a call takes beyond the time that it asks for.
pub(super) const MARGIN: Duration = Duration::from_secs(40);
/// The most time between two heartbeats, and the least.
const BEAT_MOST: Duration = Duration::from_secs(10);
const BEAT_LEAST: Duration = Duration::from_millis(200);

/// The longest text of an answer in bytes, and how much of a longer one is its beginning.
const MOST_TEXT: usize = 64 << 10;
const BEGINNING: usize = 24 << 10;

pub(super) type Planner = PlannerServiceClient<ServiceChannel>;

/// A leased plan.
#[derive(Debug)]
pub(super) struct HeldPlan {
    pub(super) fence: v1::PlanFence,
    pub(super) revision: u32,
    pub(super) beating: JoinHandle<()>,
}

impl Drop for HeldPlan {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

/// Refuses a call about another lease than that of `lease_epoch`. Without a session it is not known which agent calls, so
/// the call has to name it.
pub(super) fn is_meant(
    lease_epoch: u64,
    named: Option<u64>,
    is_anyones: bool,
) -> Result<(), Failure> {
    let (message, advice) = match named {
        Some(named) if named == lease_epoch => return Ok(()),
        None if !is_anyones => return Ok(()),
        Some(named) => (
            format!("the lease with the lease_epoch {named} is over"),
            "Lease a step with surety_lease.",
        ),
        None => (
            "the call names no lease_epoch, and comes without a session".to_owned(),
            "Name the lease_epoch that surety_lease or surety_lease_plan returned, or connect with a session.",
        ),
    };
    Err(Failure::new(Code::ValueInvalid, message, advice).at("lease_epoch"))
}

/// At most [`MOST_TEXT`] bytes of a text and a note: its beginning with the task, and its end with what the agent decides about.
pub(super) fn bounded(text: String) -> String {
    if text.len() <= MOST_TEXT {
        return text;
    }
    let from = text.ceil_char_boundary(text.len() - (MOST_TEXT - BEGINNING));
    let beginning = text.get(..text.floor_char_boundary(BEGINNING)).unwrap_or_default();
    let end = text.get(from..).unwrap_or_default();
    let left_out = text.len() - beginning.len() - end.len();
    format!("{beginning}\n({left_out} bytes are left out; structuredContent has them)\n{end}")
}

/// A call with a time limit beyond the time that it asks for.
pub(super) fn within_time<M>(message: M, time: Duration) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(time + MARGIN);
    request
}

/// A third of what is left of a lease.
pub(super) fn interval(expires_at: Option<&prost_types::Timestamp>) -> Duration {
    let left = crate::text::moment(expires_at).map(|at| at - clock::now());
    let third = left.and_then(|left| left.to_std().ok()).unwrap_or_default() / 3;
    third.clamp(BEAT_LEAST, BEAT_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        let text = format!("the task {} what is asked", "ä".repeat(MOST_TEXT));
        let cut = bounded(text);
        assert!(cut.starts_with("the task ") && cut.ends_with(" what is asked"));
        assert!(cut.len() < MOST_TEXT + 100 && cut.contains("bytes are left out"), "{}", cut.len());
        assert_eq!(bounded("short".to_owned()), "short");
    }
}
