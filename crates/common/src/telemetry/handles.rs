//! Handles of metrics that are counted several times a step.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Whether the process has the recorder of its metrics.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// From now on handles are kept: the process has the recorder of its metrics.
pub(super) fn keep() {
    INSTALLED.store(true, Ordering::Release);
}

/// Whether the process has the recorder of its metrics.
pub(super) fn is_installed() -> bool {
    INSTALLED.load(Ordering::Acquire)
}

/// The values of the labels of one handle, in the order of the metric.
type Labels<const LABELS: usize> = [Box<str>; LABELS];

/// The handles of one metric by the values of its labels. The registry would build a key of all labels and hash it
/// for each count. Use it only for labels of a few dozen combinations, because all of them are kept and compared.
pub(super) struct Handles<H, const LABELS: usize>(RwLock<Vec<(Labels<LABELS>, H)>>);

impl<H, const LABELS: usize> Handles<H, LABELS> {
    pub(super) const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// Gives the handle of these labels to `count`; `register` makes it. It is kept where `is_installed` says that
    /// the process has its recorder: a handle of no recorder, or of a thread's own, would count nothing later.
    pub(super) fn with(
        &self,
        is_installed: bool,
        labels: [&str; LABELS],
        register: impl FnOnce() -> H,
        count: impl FnOnce(&H),
    ) {
        if !is_installed {
            return count(&register());
        }
        let is_one = |(values, _): &&(Labels<LABELS>, H)| {
            values.iter().zip(labels).all(|(value, label)| **value == *label)
        };
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = known.iter().find(is_one) {
            return count(handle);
        }
        drop(known);
        let handle = register();
        count(&handle);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first.
        if !known.iter().any(|one| is_one(&one)) {
            known.push((labels.map(Box::from), handle));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Handles;
    use std::cell::Cell;

    #[test]
    fn each_combination_of_labels_has_one_handle_once_the_recorder_is_installed() {
        let (handles, registered) = (Handles::<usize, 2>::new(), Cell::new(0));
        let counted = |is_installed: bool, labels: [&'static str; 2]| {
            let register = || {
                registered.set(registered.get() + 1);
                registered.get()
            };
            let mut found = 0;
            handles.with(is_installed, labels, register, |handle| found = *handle);
            found
        };
        assert_eq!([["a", "b"], ["a", "b"]].map(|labels| counted(false, labels)), [1, 2]);
        let labels = [["a", "b"], ["b", "a"], ["a", "b"], ["a", "a"], ["b", "a"]];
        assert_eq!(labels.map(|labels| counted(true, labels)), [3, 4, 3, 5, 4]);
    }
}
