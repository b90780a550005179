//! What a process keeps of what it used lately, within bounds.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by key. Those that were put longest ago are dropped first.
pub(crate) struct Shelf<K, V> {
    most: usize,
    heaviest: usize,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    kept: HashMap<K, Kept<V>>,
    weight: usize,
    /// Numbers the values in the order in which they were put.
    puts: u64,
}

struct Kept<V> {
    value: V,
    weight: usize,
    put: u64,
}

impl<K: Copy + Eq + Hash, V> Shelf<K, V> {
    /// At most `most` values, which together weigh at most `heaviest`; a single one may weigh more.
    pub(crate) fn of(most: usize, heaviest: usize) -> Self {
        let state = State { kept: HashMap::new(), weight: 0, puts: 0 };
        Self { most, heaviest, state: Mutex::new(state) }
    }

    /// Keeps a value, in the place of the one that the key had.
    pub(crate) fn put(&self, key: K, value: V, weight: usize) {
        let mut state = self.state();
        state.remove(key);
        state.puts += 1;
        state.weight += weight;
        let put = state.puts;
        state.kept.insert(key, Kept { value, weight, put });
        while state.kept.len() > self.most || state.weight > self.heaviest && state.kept.len() > 1 {
            let oldest = state.kept.iter().min_by_key(|(_, kept)| kept.put);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { break };
            state.remove(oldest);
        }
    }

    /// Takes the value of a key away, where `fits` says that it is of use.
    pub(crate) fn take(&self, key: K, fits: impl FnOnce(&V) -> bool) -> Option<V> {
        let mut state = self.state();
        let of_use = state.kept.get(&key).is_some_and(|kept| fits(&kept.value));
        if of_use { state.remove(key) } else { None }
    }

    /// Reads or changes the value of a key in its place.
    pub(crate) fn with<T>(&self, key: K, work: impl FnOnce(&mut V) -> T) -> Option<T> {
        self.state().kept.get_mut(&key).map(|kept| work(&mut kept.value))
    }

    fn state(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> State<K, V> {
    fn remove(&mut self, key: K) -> Option<V> {
        let kept = self.kept.remove(&key)?;
        self.weight -= kept.weight;
        Some(kept.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_longest_ago_is_dropped_first() {
        let shelf = Shelf::of(2, 100);
        for key in 1..=3 {
            shelf.put(key, "value", 1);
        }
        assert_eq!(shelf.take(1, |_| true), None, "the oldest of three");
        assert_eq!(shelf.take(3, |_| false), None, "it does not fit");
        assert_eq!(shelf.with(3, |value| std::mem::replace(value, "other")), Some("value"));
        assert_eq!(shelf.take(3, |_| true), Some("other"));
        assert_eq!(shelf.take(3, |_| true), None, "it was taken already");
        shelf.put(4, "heavy", 200);
        assert_eq!(shelf.take(2, |_| true), None, "too heavy together");
        assert_eq!(shelf.take(4, |_| true), Some("heavy"), "a single one may be heavy");
        shelf.put(5, "first", 60);
        shelf.put(5, "second", 60);
        shelf.put(6, "other", 40);
        assert_eq!(shelf.take(5, |_| true), Some("second"), "the weight of the first is forgotten");
    }
}
