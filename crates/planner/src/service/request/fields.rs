//! Single fields of requests.

use surety_common::domain::identity::check_namespace;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::MAX_NAMESPACE;
use surety_common::domain::text::{MAX_REASON, check_text, read_text};
use surety_common::domain::toolchain::is_task_namespace;

/// The longest path of a folder in bytes, Linux's limit.
const MAX_WORKSPACE: usize = 4095;

/// The namespace that a request makes or changes; without one `default`.
///
/// # Errors
/// `too_large`, `type_mismatch`
pub(in crate::service) fn named(namespace: String) -> Result<String, Problem> {
    let namespace = named_before(namespace)?;
    check_namespace("namespace", &namespace)?;
    Ok(namespace)
}

/// The namespace that a request reads, which may have been made before names had a rule.
///
/// # Errors
/// `too_large`, `type_mismatch`
pub(in crate::service) fn named_before(namespace: String) -> Result<String, Problem> {
    match namespace.trim() {
        "" => Ok("default".to_owned()),
        namespace => bounded("namespace", namespace.to_owned(), MAX_NAMESPACE),
    }
}

/// Refuses the namespaces whose runs the service makes itself.
///
/// # Errors
/// `type_mismatch`
pub(in crate::service) fn check_open(namespace: &str) -> Result<(), Problem> {
    if !is_task_namespace(namespace) {
        return Ok(());
    }
    let message = format!(
        "{namespace:?} is reserved: names that begin with _ are those of tasks, which events and messages make; use another one"
    );
    Err(Problem::at(Code::TypeMismatch, "namespace", message))
}

/// A text as it was sent, within its bound.
pub(super) fn bounded(field: &str, text: String, bytes: usize) -> Result<String, Problem> {
    check_text(field, &text, bytes)?;
    Ok(text)
}

/// The reason that a caller gives; may be empty.
///
/// # Errors
/// `too_large`, `type_mismatch`.
pub(in crate::service) fn read_reason(reason: &str) -> Result<String, Problem> {
    read_text("reason", reason, MAX_REASON)
}

/// The namespace of a filter; empty for all.
///
/// # Errors
/// `too_large`, `type_mismatch`.
pub(in crate::service) fn wanted_namespace(namespace: String) -> Result<String, Problem> {
    bounded("namespace", namespace, MAX_NAMESPACE)
}

pub(super) fn read_workspace(workspace: String) -> Result<String, Problem> {
    if workspace.is_empty() || workspace.starts_with('/') {
        return bounded("workspace", workspace, MAX_WORKSPACE);
    }
    let message = format!("{workspace:?} is not an absolute path; begin it with /");
    Err(Problem::at(Code::TypeMismatch, "workspace", message))
}

pub(super) fn missing(field: &str) -> Problem {
    Problem::at(Code::FieldMissing, field, "is missing; set it")
}
