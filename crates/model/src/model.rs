//! A profile's client as a model.

use crate::attempts::Attempts;
use crate::chat::{ChatModel, ChatRequest, OnPart, Replying};
use crate::client::Client;
use crate::error::ChatError;
use crate::length::Length;
use crate::profile::Profile;
use futures::future::BoxFuture;
use std::time::Instant;
use surety_common::telemetry::{self, ModelLabels};
use tokio_util::sync::CancellationToken;

impl ChatModel for Client {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn reply<'a>(
        &'a self,
        request: &'a ChatRequest,
        on_part: OnPart<'a>,
        cancel: &'a CancellationToken,
    ) -> Replying<'a> {
        Box::pin(async move {
            let begun = Instant::now();
            // Dropping the work drops its connection.
            let work = Attempts::new(self, request, on_part).run();
            let reply = tokio::select! {
                biased;
                () = cancel.cancelled() => Err(self.cancelled()),
                reply = work => reply,
            };
            let outcome = reply.as_ref().map_or_else(ChatError::code, |_| "ok");
            telemetry::record_model_call(self.labels(), outcome, begun.elapsed());
            reply
        })
    }

    fn length(&self) -> Option<Length> {
        self.endpoint().length(&self.profile.model)
    }

    fn probe<'a>(&'a self, cancel: &'a CancellationToken) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(self.cancelled()),
                found = self.ask_for_model() => found,
            }
        })
    }
}

impl Client {
    /// The names of the model in metrics.
    pub(crate) fn labels(&self) -> ModelLabels<'_> {
        ModelLabels { profile: &self.profile.name, model: &self.profile.model }
    }

    fn cancelled(&self) -> ChatError {
        ChatError::Cancelled { endpoint: self.endpoint().name.clone() }
    }
}
