//! A check to JSON.

use super::{AcceptCheck, Match, Owner};
use crate::domain::fields::SparseObject;
use crate::domain::json::Value;

impl AcceptCheck {
    /// The stored form, without the content of an overlay, which [`super::read_checks`] reads for [`super::Author::Service`].
    pub fn to_json(&self) -> Value {
        let Self { id, kind, target, r#match, required, params, owner, overlay } = self;
        let by = if *r#match == Match::default() { "" } else { r#match.as_str() };
        let owner = if *owner == Owner::default() { "" } else { owner.as_str() };
        let members = params.iter().map(|(key, value)| (key.clone(), Value::String(value.clone())));
        SparseObject::default()
            .text("id", id)
            .text("kind", kind.as_str())
            .text("target", target)
            .text("match", by)
            .truth("required", *required, true)
            .value_if(!params.is_empty(), "params", Value::Object(members.collect()))
            .text("owner", owner)
            .text("overlay_digest", overlay.digest())
            .build()
    }
}
