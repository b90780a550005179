//! Which waits a participant asks for: namespaces that its identity may work in, and labels.

use super::caller::Caller;
use crate::domain::fault::{Fault, FaultCode};
use crate::domain::identity::Object;
use crate::domain::labels::check_labels;
use crate::domain::problem::{Code, Problem};
use crate::domain::run::MAX_NAMESPACE;
use std::collections::{BTreeMap, BTreeSet};

/// The most namespaces that one call names.
pub const MAX_NAMESPACES: usize = 100;

/// What a participant named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only waits of these namespaces, each once; empty for all that the identity reaches.
    pub namespaces: Vec<String>,
    /// Only waits of runs that carry all of these labels.
    pub labels: BTreeMap<String, String>,
}

impl Selection {
    /// The namespaces of both fields of a request, and the labels.
    ///
    /// # Errors
    /// `too_large`, `field_missing`, `type_mismatch`; `namespace_not_found` for a namespace that the identity does not
    /// reach, `permission_denied` for one in which it may not make the call.
    pub fn read(
        caller: &Caller,
        namespace: String,
        namespaces: Vec<String>,
        labels: BTreeMap<String, String>,
    ) -> Result<Self, Fault> {
        if namespaces.len() > MAX_NAMESPACES {
            let message = format!("names more than {MAX_NAMESPACES} namespaces; name fewer");
            return Err(Problem::at(Code::TooLarge, "namespaces", message).into());
        }
        check_labels("labels", &labels)?;
        let mut named = BTreeSet::new();
        if !namespace.is_empty() {
            named.insert(permitted(caller, "namespace", namespace)?);
        }
        for (place, namespace) in namespaces.into_iter().enumerate() {
            let field = format!("namespaces[{place}]");
            if namespace.is_empty() {
                let message = "is empty; name a namespace, or none at all for every one";
                return Err(Problem::at(Code::FieldMissing, field, message).into());
            }
            named.insert(permitted(caller, &field, namespace)?);
        }
        Ok(Self { namespaces: named.into_iter().collect(), labels })
    }
}

/// A namespace in which the caller may make its call.
fn permitted(caller: &Caller, field: &str, namespace: String) -> Result<String, Fault> {
    if namespace.len() > MAX_NAMESPACE {
        let message = format!("is longer than {MAX_NAMESPACE} bytes, as no namespace is");
        return Err(Problem::at(Code::TooLarge, field, message).into());
    }
    if namespace.contains('\0') {
        let message = "contains the character U+0000, which no namespace has";
        return Err(Problem::at(Code::TypeMismatch, field, message).into());
    }
    caller.may(&Object::namespace(&namespace), || {
        let message = format!("no namespace {namespace:?} is reached by this identity");
        Fault::new(FaultCode::NamespaceNotFound, message).with_field(field)
    })?;
    Ok(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fault::Reason;
    use crate::domain::identity::{Identity, Namespaces, Role, rule_of};
    use std::sync::Arc;

    fn driver(namespaces: Namespaces) -> Caller {
        let identity =
            Identity { name: "agent".to_owned(), roles: [Role::Driver].into(), namespaces };
        let rule = rule_of("/surety.v1.ExecutorService/LeaseStep").unwrap();
        Caller::new(Arc::new(identity), rule)
    }

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    fn only(of: &[&str]) -> Caller {
        driver(Namespaces::Only(of.iter().map(|name| (*name).to_owned()).collect()))
    }

    #[test]
    fn the_namespaces_of_both_fields_are_taken_once() {
        let caller = only(&["a", "b"]);
        let read = |one: &str, more: &[&str]| {
            Selection::read(&caller, one.to_owned(), names(more), BTreeMap::new()).unwrap()
        };
        assert_eq!(read("", &[]).namespaces, names(&[]));
        assert_eq!(read("b", &[]).namespaces, names(&["b"]));
        assert_eq!(read("b", &["a", "b"]).namespaces, names(&["a", "b"]));
    }

    #[test]
    fn what_may_not_be_named_is_refused_with_its_code_and_field() {
        let long = "n".repeat(MAX_NAMESPACE + 1);
        let many: Vec<String> = (0..=MAX_NAMESPACES).map(|n| n.to_string()).collect();
        let every = driver(Namespaces::Every);
        let input = |code: Code| Reason::Input(code);
        for (caller, one, more, reason, field) in [
            (&every, "", many, input(Code::TooLarge), "namespaces"),
            (&every, &*long, vec![], input(Code::TooLarge), "namespace"),
            (&every, "a\0", vec![], input(Code::TypeMismatch), "namespace"),
            (&every, "a", names(&["b", ""]), input(Code::FieldMissing), "namespaces[1]"),
            (
                &only(&["a"]),
                "a",
                names(&["b"]),
                Reason::Service(FaultCode::NamespaceNotFound),
                "namespaces[0]",
            ),
        ] {
            let fault = Selection::read(caller, one.to_owned(), more, BTreeMap::new()).unwrap_err();
            assert_eq!((fault.reason, fault.field.as_deref()), (reason, Some(field)), "{fault}");
        }
        let labels = (0..=64).map(|n| (n.to_string(), String::new())).collect();
        let fault = Selection::read(&every, String::new(), vec![], labels).unwrap_err();
        assert_eq!(fault.reason, input(Code::TooLarge));
    }
}
