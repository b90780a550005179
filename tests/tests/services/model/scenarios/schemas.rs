//! Endpoints that refuse to hold a model to a schema: the next way is tried, once for the process.

use super::{comes_to, step, well};
use crate::model::stage::Stage;
use anyhow::{Result, ensure};
use surety_common::wire::v1::StopReason;
use surety_e2e::model_server::{Offers, Settings};

#[tokio::test]
async fn a_refused_schema_costs_requests_once_and_no_call_of_a_model() -> Result<()> {
    for (offers, refused) in [
        (Offers::Everything, 0),
        (Offers::Functions(400), 1),
        (Offers::Functions(404), 1),
        // A failure of a moment must not lose the schema, so 500 counts when it comes twice.
        (Offers::Functions(500), 2),
        (Offers::Nothing(400), 2),
        (Offers::Nothing(500), 4),
    ] {
        let settings = Settings { offers, ..Settings::default() };
        let stage =
            Stage::start_profiled(settings, "retry_pause_ms = 20\nbreaker_failures = 1000\n")
                .await?;
        for goal in ["the first run", "the second run"] {
            stage.plays.add(goal, |number, _| well(number));
            comes_to(&stage, goal, step, StopReason::Accepted, 2).await?;
        }
        let recorded = stage.server.recorded();
        let posts = recorded.iter().filter(|request| request.line.starts_with("POST"));
        let refusals = posts.clone().filter(|request| request.status != Some(200)).count();
        ensure!((posts.count(), refusals) == (4 + refused, refused), "{offers:?}: {recorded:#?}");
        stage.deployment.finish().await?;
    }
    Ok(())
}
