//! Waiting until a run changes. To read it again and again took a third of the processors in the long waits of the tests.

use std::time::Duration;
use surety_common::wire::client::ServiceChannel;
use surety_common::wire::v1;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tonic::{Status, Streaming};

/// The shortest time between two reads of a run.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest, for what no event of its journal says.
const AT_LEAST_EVERY: Duration = Duration::from_millis(250);

/// The journal of a run, followed from the first time that a read of the run was not the last.
#[derive(Default)]
pub(super) struct Changes(Option<Streaming<v1::WatchRunResponse>>);

impl Changes {
    /// Waits until the run may be another than this one, which was just read.
    pub(super) async fn after(
        &mut self,
        runs: &mut RunServiceClient<ServiceChannel>,
        run: &v1::Run,
    ) {
        let read_at = Instant::now();
        let until = read_at + AT_LEAST_EVERY;
        let ended = match timeout_at(until, self.next(runs, run)).await {
            Ok(Ok(true)) | Err(_) => false,
            Ok(Ok(false) | Err(_)) => true,
        };
        if ended {
            // Its service was replaced, or the run has ended: events no longer say when to look.
            self.0 = None;
        }
        sleep_until(read_at + PAUSE).await;
    }

    /// Waits before a run is read again that could not be read.
    pub(super) async fn after_fault(&mut self) {
        self.0 = None;
        sleep(PAUSE).await;
    }

    /// Whether an event came that is not in this run; otherwise the stream has ended.
    async fn next(
        &mut self,
        runs: &mut RunServiceClient<ServiceChannel>,
        run: &v1::Run,
    ) -> Result<bool, Status> {
        let stream = match &mut self.0 {
            Some(stream) => stream,
            none => none.insert(follow(runs, run).await?),
        };
        while let Some(response) = stream.message().await? {
            if response.event.is_some_and(|event| event.sequence > run.last_sequence) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

async fn follow(
    runs: &mut RunServiceClient<ServiceChannel>,
    run: &v1::Run,
) -> Result<Streaming<v1::WatchRunResponse>, Status> {
    let request = v1::WatchRunRequest {
        run_id: run.id.clone(),
        from_sequence: run.last_sequence + 1,
        follow: true,
        progress: false,
    };
    Ok(runs.watch_run(request).await?.into_inner())
}
