//! The executor's client of the acceptgate.

use crate::pauses::Pauses;
use surety_common::domain::fault::{Fault, FaultClass, FaultCode, Reason};
use surety_common::wire::client::ServiceChannel;
use surety_common::wire::status::{from_status, has_reason};
use surety_common::wire::v1;
use surety_common::wire::v1::internal_service_client::InternalServiceClient;
use tonic::{Code, Status};
use uuid::Uuid;

/// How many internal errors of the gate for one run are retried. With the pauses that is at least
/// five seconds, in which a gate that is being replaced is available again.
const MAX_DEFECTS: u32 = 8;

/// The run's state after the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is DONE.
    Done,
    /// Any other state, which is in the run's row.
    Elsewhere,
}

/// The acceptgate's client. Clones share the connection.
#[derive(Clone)]
pub struct Gate {
    client: InternalServiceClient<ServiceChannel>,
}

impl Gate {
    /// Creates a client over a channel.
    pub fn new(channel: ServiceChannel) -> Self {
        Self { client: InternalServiceClient::new(channel) }
    }

    /// Requests the verdict on a run, and retries while the gate or its database is unavailable.
    /// The gate changes the run's state; the call may be repeated safely.
    ///
    /// # Errors
    /// The gate's error when a retry does not help; of class internal after too many internal
    /// errors for this run.
    ///
    /// # Cancel safety
    /// A verdict in progress is stored or not, which the row shows; a later one finds another
    /// version or lease there, and is lost.
    pub async fn evaluate_run(&self, run_id: Uuid, lease_epoch: i64) -> Result<Moved, Fault> {
        let mut defects = 0;
        let mut pauses = Pauses::new();
        loop {
            let request = v1::EvaluateRunRequest {
                run_id: run_id.to_string(),
                lease_epoch: u64::try_from(lease_epoch).unwrap_or_default(),
            };
            let fault = match self.client.clone().evaluate_run(request).await {
                Ok(response) => {
                    let accepted =
                        response.into_inner().verdict.is_some_and(|verdict| verdict.accepted);
                    return Ok(if accepted { Moved::Done } else { Moved::Elsewhere });
                }
                Err(status) if has_reason(&status) || status.code() == Code::Unavailable => {
                    from_status(&status)
                }
                Err(status) => no_gate(&status),
            };
            defects += u32::from(fault.class == FaultClass::Internal);
            if !worth_a_retry(&fault) || defects >= MAX_DEFECTS {
                return Err(fault);
            }
            let pause = pauses.next();
            tracing::warn!(%run_id, %fault, retry_in_ms = pause.as_millis(), "executor: waiting for the gate");
            tokio::time::sleep(pause).await;
        }
    }
}

/// What a transport, or a server that is no acceptgate, says of the call: nothing about the run.
fn no_gate(status: &Status) -> Fault {
    let (code, said) = (status.code().description(), status.message());
    let message = format!(
        "what answers at --gate-url (SURETY_GATE_URL) does not answer as an acceptgate does: {code}: {said}"
    );
    Fault::new(FaultCode::ServiceUnavailable, message)
}

/// Whether the same call may succeed later. A caller that is refused may be one whose token file or role is being
/// replaced, and a gate without a database is set up wrongly, so that is retried and logged too.
fn worth_a_retry(fault: &Fault) -> bool {
    if fault.reason == Reason::Service(FaultCode::DatabaseNotConfigured) {
        return true;
    }
    match fault.class {
        FaultClass::Unavailable
        | FaultClass::DeadlineExceeded
        | FaultClass::Cancelled
        | FaultClass::ResourceExhausted
        | FaultClass::Internal
        | FaultClass::PermissionDenied
        | FaultClass::Unimplemented
        | FaultClass::Unauthenticated => true,
        FaultClass::InvalidArgument
        | FaultClass::NotFound
        | FaultClass::AlreadyExists
        | FaultClass::FailedPrecondition
        | FaultClass::Aborted => false,
    }
}
