//! Acceptance checks: conditions that must hold before a run, or a step, counts as done.

mod accept_check;
mod command_success;
mod content_contains;
mod evaluate;
mod evidence;
mod file_exists;
mod file_type;
mod kind;
mod legacy;
mod line_parts;
mod normal;
mod output_only;
mod overlay;
mod overlay_rules;
mod read;
mod reason;
mod sandbox_param;
mod strength;
mod test_bounds;
mod text_paths;
mod thin;
mod tool_fact;
mod workspace_change;
mod write;

#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod tests;

pub use accept_check::{AcceptCheck, Match, Owner, SOURCE, check_key};
pub use evaluate::evaluate;
pub use evidence::Evidence;
pub use file_type::FileType;
pub use kind::CheckKind;
pub use normal::normalise_checks;
pub use overlay::{
    MAX_OVERLAY_BYTES, MAX_OVERLAY_FILES, Overlay, OverlayFiles, decode_overlay, encode_overlay,
};
pub use read::{Author, CHECK_KEYS, ScannedChecks, read_checks, scan_checks, validate_check};
pub use reason::Reason;
pub use sandbox_param::SANDBOX as SANDBOX_PARAM;
pub use strength::strength_of;
pub use test_bounds::{MAX_SKIPPED, MIN_TESTS};
pub use text_paths::{Look, Standing, name_paths, name_paths_of_plan};
pub use thin::is_thin;
pub use workspace_change::{PATHS, changed_fact, changed_paths};
