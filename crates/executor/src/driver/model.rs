//! The model driver: a model that this service asks itself. Its loop leases the decision like an agent outside
//! (`crate::model`).

use super::{Driver, Need, Next, Situation};
use surety_common::domain::stop::WaitingOn;

/// Never replies at once: each decision is a wait that the loop of an executor with a model leases.
#[derive(Debug, Clone, Copy, Default)]
pub struct Model;

impl Driver for Model {
    fn next(&self, _: &Situation<'_>) -> Next {
        let unblocks = "a model of the service; an executor needs a model endpoint \
                        (SURETY_MODEL_URL, SURETY_MODEL_NAME)"
            .to_owned();
        Next::Later(Need { waiting_on: WaitingOn::Driver, unblocks, of_model: true })
    }
}
