//! Hooks of forges, and their stored deliveries.

use super::Service;
use super::page::Page;
use super::run::no_namespace;
use crate::hook::NAMESPACE;
use crate::planner::Planner;
use std::sync::Arc;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Object;
use surety_common::domain::toolchain::Hook;
use surety_common::store::{self, DeliveryFilter, HookChange, StoredDelivery};
use surety_common::wire::caller::Caller;
use surety_common::wire::hook::read_delivery_state;
use surety_common::wire::v1;
use surety_common::wire::value::id;

impl Service {
    /// The planner of the hooks' database, once the caller may make the call.
    async fn of_hooks(&self, caller: &Caller) -> Result<Arc<Planner>, Fault> {
        caller.may(&Object::namespace(NAMESPACE), || no_namespace(NAMESPACE))?;
        self.hooks.planner().await
    }

    pub(super) async fn store_hook(
        &self,
        caller: &Caller,
        request: v1::PutHookRequest,
    ) -> Result<v1::PutHookResponse, Fault> {
        let planner = self.of_hooks(caller).await?;
        let hook = Hook::try_from(request.hook.unwrap_or_default())?;
        if let Some(secret) = self.hooks.unlisted(&hook.secrets) {
            let message = format!(
                "the secret {secret} is not listed for _toolchain; add it to SURETY_HOOK_SECRETS of every planner"
            );
            let fault = Fault::new(FaultCode::HookSecretUnknown, message);
            return Err(fault.with_field("hook.secrets"));
        }
        let change = HookChange { identity: caller.name(), now: planner.now() };
        let stored = store::put_hook(&planner.pool, &hook, change).await?;
        self.know_hooks().await;
        Ok(v1::PutHookResponse { hook: Some(stored.into()) })
    }

    pub(super) async fn all_hooks(&self, caller: &Caller) -> Result<v1::ListHooksResponse, Fault> {
        let planner = self.of_hooks(caller).await?;
        let hooks = store::list_hooks(&planner.pool).await?;
        Ok(v1::ListHooksResponse { hooks: hooks.into_iter().map(Into::into).collect() })
    }

    pub(super) async fn remove_hook(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<v1::DeleteHookResponse, Fault> {
        let planner = self.of_hooks(caller).await?;
        let change = HookChange { identity: caller.name(), now: planner.now() };
        let deleted = store::delete_hook(&planner.pool, name, change).await?;
        self.know_hooks().await;
        let no_hook = || {
            let message = format!("no hook has the name {name:?}");
            Fault::new(FaultCode::HookNotFound, message).with_field("name")
        };
        Ok(v1::DeleteHookResponse { hook: Some(deleted.ok_or_else(no_hook)?.into()) })
    }

    /// Takes a change over at once here. The other planners read it within seconds.
    async fn know_hooks(&self) {
        if let Err(error) = self.hooks.refresh().await {
            tracing::warn!(%error, "hook: a changed hook could not be read again; it is read within seconds");
        }
    }

    pub(super) async fn list_stored_deliveries(
        &self,
        caller: &Caller,
        mut request: v1::ListDeliveriesRequest,
    ) -> Result<v1::ListDeliveriesResponse, Fault> {
        let planner = self.of_hooks(caller).await?;
        let page = Page::of(&mut request)?;
        let v1::ListDeliveriesRequest { hook, states, .. } = request;
        let states = states.into_iter().map(|state| read_delivery_state("states", state));
        let filter = DeliveryFilter {
            hook,
            states: states.collect::<Result<_, _>>()?,
            before: page.after()?,
            limit: page.limit + 1,
        };
        let mut found = store::list_forge_deliveries(&planner.pool, &filter).await?;
        let next_page_token = page.cut(&mut found, |delivery| delivery.id);
        let deliveries = found.into_iter().map(Into::into).collect();
        Ok(v1::ListDeliveriesResponse { deliveries, next_page_token })
    }

    pub(super) async fn show_delivery(
        &self,
        caller: &Caller,
        delivery_id: &str,
    ) -> Result<v1::GetDeliveryResponse, Fault> {
        let planner = self.of_hooks(caller).await?;
        let id = id("delivery_id", delivery_id)?;
        let found = store::find_forge_delivery(&planner.pool, id).await?;
        let (delivery, headers_json, body) = found.ok_or_else(|| no_delivery(delivery_id))?;
        Ok(v1::GetDeliveryResponse { delivery: Some(delivery.into()), headers_json, body })
    }

    pub(super) async fn process_again(
        &self,
        caller: &Caller,
        delivery_id: &str,
    ) -> Result<v1::ReplayDeliveryResponse, Fault> {
        let planner = self.of_hooks(caller).await?;
        let id = id("delivery_id", delivery_id)?;
        let replayed = store::replay_forge_delivery(&planner.pool, id, planner.now()).await?;
        let delivery: StoredDelivery = replayed.ok_or_else(|| no_delivery(delivery_id))?;
        self.hooks.wake();
        Ok(v1::ReplayDeliveryResponse { delivery: Some(delivery.into()) })
    }
}

fn no_delivery(delivery_id: &str) -> Fault {
    let message = format!("no stored delivery has the id {delivery_id}");
    Fault::new(FaultCode::DeliveryNotFound, message).with_field("delivery_id")
}
