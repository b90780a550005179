//! Answers with their ETags, so that an unchanged one is not sent again and costs no call of the rate limit.

use crate::paging::Paging;
use hashlink::LruCache;
use std::sync::{Arc, Mutex, PoisonError};

/// The most answers.
const MOST_ENTRIES: usize = 512;
/// The most bytes of all answers together.
const MOST_BYTES: usize = 16 << 20;
/// The most bytes of one answer that is kept.
const LARGEST: usize = 1 << 20;

/// An answer of a forge.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) etag: String,
    pub(crate) body: Vec<u8>,
    pub(crate) paging: Paging,
}

/// Answers by account and address. The ones that were used least recently leave first.
pub(crate) struct Cache {
    kept: Mutex<Answers>,
}

struct Answers {
    by_key: LruCache<String, Arc<Kept>>,
    bytes: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self { kept: Mutex::new(Answers { by_key: LruCache::new(MOST_ENTRIES), bytes: 0 }) }
    }
}

impl Cache {
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Kept>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_key.get(key).map(Arc::clone)
    }

    pub(crate) fn keep(&self, key: String, answer: Kept) {
        let bytes = answer.body.len();
        if bytes > LARGEST {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // A full cache drops its oldest answer by itself; this one is counted out before.
        while !kept.by_key.contains_key(&key)
            && (kept.by_key.len() >= MOST_ENTRIES || kept.bytes + bytes > MOST_BYTES)
        {
            let Some((_, old)) = kept.by_key.remove_lru() else { break };
            kept.bytes -= old.body.len();
        }
        if let Some(old) = kept.by_key.insert(key, Arc::new(answer)) {
            kept.bytes -= old.body.len();
        }
        kept.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_stay_within_their_bounds() {
        let cache = Cache::default();
        let answer = |bytes: usize| Kept {
            etag: "e".to_owned(),
            body: vec![0; bytes],
            paging: Paging::default(),
        };
        cache.keep("large".to_owned(), answer(LARGEST + 1));
        assert!(cache.get("large").is_none());
        for number in 0..40 {
            cache.keep(format!("{number}"), answer(LARGEST));
            cache.keep(format!("{number}"), answer(LARGEST));
        }
        let counted = |cache: &Cache| {
            let kept = cache.kept.lock().expect("no panic");
            let sum: usize = kept.by_key.iter().map(|(_, kept)| kept.body.len()).sum();
            assert_eq!(sum, kept.bytes);
            (kept.by_key.len(), kept.bytes)
        };
        assert_eq!(counted(&cache), (16, MOST_BYTES));
        assert!(cache.get("0").is_none() && cache.get("39").is_some());
        for number in 0..2 * MOST_ENTRIES {
            cache.keep(format!("small {number}"), answer(1));
        }
        assert!(counted(&cache).0 <= MOST_ENTRIES);
    }
}
