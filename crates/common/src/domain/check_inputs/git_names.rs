//! Which reference git reads for a name: an added one may stand before that of the start.

use std::collections::BTreeMap;

/// Where git looks for a name, in its order. In the first place it is a file of the repository's own folder.
const PLACES: [(&[u8], &[u8]); 6] = [
    (b"", b""),
    (b"refs/", b""),
    (b"refs/tags/", b""),
    (b"refs/heads/", b""),
    (b"refs/remotes/", b""),
    (b"refs/remotes/", b"/HEAD"),
];
/// The least number of digits by which git takes a word for the beginning of an object's name, and that of whole names.
const ABBREVIATED: usize = 4;
const WHOLE: usize = 40;

/// The names for which git may read a reference, with its place among those that it looks at.
fn names(reference: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    PLACES.iter().enumerate().filter_map(move |(place, (before, after))| {
        let name = reference.strip_prefix(*before)?.strip_suffix(*after)?;
        (!name.is_empty()).then_some((place, name))
    })
}

/// The short names of references.
pub fn short_names(references: &BTreeMap<Vec<u8>, Vec<u8>>) -> impl Iterator<Item = &[u8]> {
    references.keys().filter(|it| it.starts_with(b"refs/")).flat_map(|reference| {
        names(reference).filter(|(place, _)| *place > 0).map(|(_, name)| name)
    })
}

/// The added references that git reads in place of one of the start, or of an object whose name is given in part.
pub(super) fn shadowing<'n>(
    before: &BTreeMap<Vec<u8>, Vec<u8>>,
    now: &'n BTreeMap<Vec<u8>, Vec<u8>>,
) -> Vec<&'n Vec<u8>> {
    let added = || now.keys().filter(|name| !before.contains_key(*name) && !is_note(name));
    if added().next().is_none() {
        return Vec::new();
    }
    let mut first: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (place, name) in before.keys().filter(|name| !is_note(name)).flat_map(|it| names(it)) {
        let known = first.entry(name).or_insert(place);
        *known = place.min(*known);
    }
    let is_part_of_object = |name: &[u8]| {
        (ABBREVIATED..WHOLE).contains(&name.len())
            && name.iter().all(u8::is_ascii_hexdigit)
            && name.iter().any(u8::is_ascii_digit)
    };
    let takes_place = |reference: &&Vec<u8>| {
        names(reference).any(|(place, name)| {
            first.get(name).is_some_and(|of_start| place < *of_start) || is_part_of_object(name)
        })
    };
    added().filter(takes_place).collect()
}

/// Whether an entry among the references is something else that is known of the repository.
pub(super) fn is_note(name: &[u8]) -> bool {
    name.contains(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_reference_may_take_the_place_of_one_of_the_start() {
        let of = |names: &[&str]| -> BTreeMap<Vec<u8>, Vec<u8>> {
            names.iter().map(|name| (name.as_bytes().to_vec(), b"1".to_vec())).collect()
        };
        let before = ["refs/heads/main", "refs/remotes/origin/main", "refs/tags/v1.0"];
        let start = of(&before);
        for (added, expected) in [
            ("refs/tags/main", true),
            ("refs/tags/origin/main", true),
            ("refs/heads/origin/main", true),
            ("refs/v1.0", true),
            ("origin/main", true),
            ("refs/tags/heads/main", false),
            ("refs/heads/heads/main", false),
            ("refs/heads/12ab", true),
            ("refs/heads/face", false),
            ("refs/heads/v1.0", false),
            ("refs/heads/work", false),
            ("refs/tags/v2.0", false),
            ("refs/remotes/origin/HEAD", false),
            ("refs/remotes/origin/work", false),
        ] {
            let now = of(&[&before[..], &[added]].concat());
            assert_eq!(shadowing(&start, &now).len(), usize::from(expected), "{added}");
        }
        let short: Vec<_> = short_names(&start).collect();
        let expected =
            ["heads/main", "main", "remotes/origin/main", "origin/main", "tags/v1.0", "v1.0"];
        assert_eq!(short, expected.map(str::as_bytes));
    }
}
