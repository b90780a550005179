//! A verification without a service and without a database.
//!
//! ```text
//!   checks file --> VerifyPlan      the checks and the policy, read before anything runs
//!   workspace ----> Scene           the workspace, its start (S0) and the sandbox
//!                     -> participant (the command of `surety verify`)
//!                     -> round: probes, receipts, verdict
//!                         -> asked: the person at the terminal, where it is in doubt
//!                         -> VerdictFile
//! ```

mod asked;
mod base;
mod document;
mod file;
mod hook;
mod input;
mod made;
mod plan;
mod report;
mod round;
mod scene;
mod set_aside;
mod signed;
mod still;
mod still_run;

pub use asked::{ask, can_ask, person};
pub use base::{
    DEFAULT_PLAN, OVERLAY_READABLE, as_left, beside_at, default_verdict_file, origin_of, real,
    text_at,
};
pub use document::Document;
pub use file::{Caution, FORM, Origin, Ran, Recorded, StartKind, VerdictFile, ensure_writable};
pub use hook::{HeldUp, HookInput};
pub use input::check_programs;
pub use made::Subject;
pub use plan::VerifyPlan;
pub use report::as_text;
pub use round::{Judged, Traces, judge, resolve};
pub use scene::{DEFAULT_BASE, Kept, Scene, StartFrom, is_protected, rules};
pub use signed::{Signed, Signer, unusable_user_key};
pub use still::{Comparison, compare, not_compared};
pub use still_run::of_run;
