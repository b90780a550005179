//! Hooks and their deliveries on the wire.

use super::v1;
use super::value::timestamp;
use crate::domain::problem::{Code, Problem};
use crate::domain::toolchain::{DeliveryState, Forge, Hook};

impl From<Forge> for v1::Forge {
    fn from(forge: Forge) -> Self {
        match forge {
            Forge::Gitea => Self::Gitea,
            Forge::Forgejo => Self::Forgejo,
            Forge::Github => Self::Github,
        }
    }
}

impl From<DeliveryState> for v1::DeliveryState {
    fn from(state: DeliveryState) -> Self {
        match state {
            DeliveryState::Stored => Self::Stored,
            DeliveryState::Processed => Self::Processed,
            DeliveryState::Ignored => Self::Ignored,
            DeliveryState::Refused => Self::Refused,
            DeliveryState::Repeated => Self::Repeated,
            DeliveryState::Failed => Self::Failed,
        }
    }
}

/// A forge.
///
/// # Errors
/// `type_mismatch` for none.
pub fn read_forge(field: &str, number: i32) -> Result<Forge, Problem> {
    match v1::Forge::try_from(number) {
        Ok(v1::Forge::Gitea) => Ok(Forge::Gitea),
        Ok(v1::Forge::Forgejo) => Ok(Forge::Forgejo),
        Ok(v1::Forge::Github) => Ok(Forge::Github),
        Ok(v1::Forge::Unspecified) | Err(_) => {
            let message = "is no forge; use GITEA, FORGEJO or GITHUB";
            Err(Problem::at(Code::TypeMismatch, field, message))
        }
    }
}

/// The state of a delivery.
///
/// # Errors
/// `type_mismatch` for none.
pub fn read_delivery_state(field: &str, number: i32) -> Result<DeliveryState, Problem> {
    match v1::DeliveryState::try_from(number) {
        Ok(v1::DeliveryState::Stored) => Ok(DeliveryState::Stored),
        Ok(v1::DeliveryState::Processed) => Ok(DeliveryState::Processed),
        Ok(v1::DeliveryState::Ignored) => Ok(DeliveryState::Ignored),
        Ok(v1::DeliveryState::Refused) => Ok(DeliveryState::Refused),
        Ok(v1::DeliveryState::Repeated) => Ok(DeliveryState::Repeated),
        Ok(v1::DeliveryState::Failed) => Ok(DeliveryState::Failed),
        Ok(v1::DeliveryState::Unspecified) | Err(_) => {
            Err(Problem::at(Code::TypeMismatch, field, "is no state of a delivery"))
        }
    }
}

impl TryFrom<v1::Hook> for Hook {
    type Error = Problem;

    fn try_from(hook: v1::Hook) -> Result<Self, Problem> {
        let v1::Hook { name, forge, secrets, updated_at: _, updated_by: _ } = hook;
        Self::new(&name, read_forge("hook.forge", forge)?, secrets)
    }
}

#[cfg(feature = "store")]
impl From<crate::store::StoredHook> for v1::Hook {
    fn from(stored: crate::store::StoredHook) -> Self {
        let crate::store::StoredHook { hook, updated_at, updated_by } = stored;
        let Hook { name, forge, secrets } = hook;
        Self {
            name,
            forge: v1::Forge::from(forge).into(),
            secrets,
            updated_at: Some(timestamp(updated_at)),
            updated_by,
        }
    }
}

#[cfg(feature = "store")]
impl From<crate::store::StoredDelivery> for v1::Delivery {
    fn from(stored: crate::store::StoredDelivery) -> Self {
        let crate::store::StoredDelivery {
            id,
            hook,
            forge,
            delivery_id,
            event,
            received_at,
            state,
            reason,
            problem,
            tasks,
            attempts,
            replays,
            processed_at,
            bytes,
        } = stored;
        let count = |number: i32| u32::try_from(number).unwrap_or_default();
        Self {
            id: id.to_string(),
            hook,
            forge: v1::Forge::from(forge).into(),
            forge_delivery_id: delivery_id,
            event,
            received_at: Some(timestamp(received_at)),
            state: v1::DeliveryState::from(state).into(),
            reason,
            problem,
            run_ids: tasks.iter().map(ToString::to_string).collect(),
            attempts: count(attempts),
            replays: count(replays),
            processed_at: processed_at.map(timestamp),
            body_bytes: count(bytes),
        }
    }
}
