//! Tools as the API lists them.

use super::{Annotations, Registry, ToolSpec};
use surety_common::wire::v1;
use surety_common::wire::value::whole_seconds;

/// A tool on the wire, and whether each call of it needs a confirmation.
pub(crate) fn shown(registry: &Registry, spec: &ToolSpec, needs_confirmation: bool) -> v1::Tool {
    let ToolSpec {
        name,
        description,
        input_schema,
        annotations,
        scan: _,
        default_timeout,
        return_sample,
    } = spec;
    let Annotations { read_only, destructive, idempotent, open_world } = *annotations;
    v1::Tool {
        name: name.clone(),
        description: description.clone(),
        input_schema_json: input_schema.to_string(),
        annotations: Some(v1::ToolAnnotations {
            read_only: Some(read_only),
            destructive: Some(destructive),
            idempotent: Some(idempotent),
            open_world: Some(open_world),
        }),
        return_sample: return_sample.to_string(),
        timeout: Some(whole_seconds(default_timeout.as_secs())),
        provider: registry.provider_of(name).to_owned(),
        needs_confirmation,
        aliases: registry.aliases_of(name).map(str::to_owned).collect(),
    }
}
