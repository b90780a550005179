//! Merges one page of a list from each of several databases into one page.

/// The limits of a page.
pub(crate) struct PageBounds<T> {
    /// The most rows.
    pub(crate) rows: i64,
    /// The most bytes of its rows, not counting the last one.
    pub(crate) bytes: i64,
    /// The bytes of a row.
    pub(crate) of: fn(&T) -> i64,
}

/// The first rows of all pages, in the order of `key`, and where the next page begins. Each page
/// has that order and says whether its database has more rows. A row in several databases is
/// returned once.
pub(crate) fn merge<T, K: Ord + Copy>(
    mut pages: Vec<(Vec<T>, Option<K>)>,
    key: impl Fn(&T) -> K,
    bounds: &PageBounds<T>,
) -> (Vec<T>, Option<K>) {
    // The page of a single database is already correct.
    if let [_] = pages.as_slice()
        && let Some(only) = pages.pop()
    {
        return only;
    }
    // Rows after the end of a page were not read, and may come before the rows of other databases.
    let end = pages.iter().filter_map(|(_, next)| *next).min();
    let mut rows: Vec<T> = pages.into_iter().flat_map(|(rows, _)| rows).collect();
    rows.retain(|row| end.is_none_or(|end| key(row) <= end));
    rows.sort_by_key(&key);
    rows.dedup_by_key(|row| key(row));
    let fit = bounds.fit(&rows);
    if rows.len() <= fit {
        return (rows, end);
    }
    rows.truncate(fit);
    let next = rows.last().map(key);
    (rows, next)
}

impl<T> PageBounds<T> {
    /// How many of these rows fit, from the first on.
    fn fit(&self, rows: &[T]) -> usize {
        let most = usize::try_from(self.rows).unwrap_or_default();
        let mut bytes = 0;
        let fit = rows.iter().take(most).take_while(|row| {
            let before = bytes;
            bytes += (self.of)(row);
            before <= self.bytes
        });
        fit.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The page of one database that begins after `after`; odd rows cannot be decoded and are
    /// omitted, as in the store.
    fn page(rows: &[u32], after: Option<u32>, limit: usize) -> (Vec<u32>, Option<u32>) {
        let behind: Vec<u32> =
            rows.iter().copied().filter(|row| after.is_none_or(|after| *row > after)).collect();
        let next = (behind.len() > limit).then(|| behind[limit - 1]);
        (behind.into_iter().take(limit).filter(|row| row % 2 == 0).collect(), next)
    }

    /// Limits for this many rows of ten bytes.
    fn bounds(rows: i64, bytes: i64) -> PageBounds<u32> {
        PageBounds { rows, bytes, of: |_| 10 }
    }

    #[test]
    fn a_page_ends_after_the_row_that_fills_it() {
        for (bytes, rows) in [(9, 1), (10, 2), (29, 3), (30, 4), (99, 4)] {
            let pages = vec![(vec![1, 3], None), (vec![2, 4], None)];
            let (found, next) = merge(pages, |row| *row, &bounds(9, bytes));
            assert_eq!((found.len(), next), (rows, found.last().copied().filter(|_| rows < 4)));
        }
    }

    #[test]
    fn a_single_page_stays_as_it_is() {
        assert_eq!(
            merge(vec![(vec![4, 8], Some(9))], |row| *row, &bounds(3, 99)),
            (vec![4, 8], Some(9))
        );
        assert_eq!(merge(vec![(vec![4, 8], None)], |row| *row, &bounds(2, 99)), (vec![4, 8], None));
    }

    #[test]
    fn no_row_is_returned_before_an_unread_one() {
        // The first database has more rows after 2, maybe a 3.
        let pages = vec![(vec![1, 2], Some(2)), (vec![4], None)];
        assert_eq!(merge(pages, |row| *row, &bounds(5, 99)), (vec![1, 2], Some(2)));
    }

    proptest! {
        #[test]
        fn page_after_page_shows_every_row_once_and_in_order(
            homes in proptest::collection::btree_map(0_u32..200, 0_usize..4, 0..60),
            limit in 1_usize..9,
            bytes in 0_i64..90,
        ) {
            // Rows with home 3 are in two databases.
            let mut databases: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
            for (row, home) in &homes {
                for place in if *home == 3 { vec![0, 1] } else { vec![*home] } {
                    databases.entry(place).or_default().push(*row);
                }
            }
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let pages = databases.values().map(|rows| page(rows, after, limit)).collect();
                let (rows, next) = merge(pages, |row| *row, &bounds(i64::try_from(limit).unwrap(), bytes));
                prop_assert!(rows.len() <= limit);
                seen.extend(rows);
                prop_assert!(next.is_none() || next > after, "{next:?} after {after:?}");
                match next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            let wanted: Vec<u32> = homes.into_keys().filter(|row| row % 2 == 0).collect();
            prop_assert_eq!(seen, wanted);
        }
    }
}
