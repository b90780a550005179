use super::*;
use proptest::collection::btree_map;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn file(path: &str, content: u8, mode: u32) -> Entry {
    let digest = FileDigest { blake3: [content; 32], sha256: Some([content; 32]) };
    Entry {
        path: path.as_bytes().into(),
        kind: Kind::File,
        mode,
        size: u64::from(content),
        ignored: false,
        stamp: Stamp::default(),
        content: Content::File(digest),
    }
}

fn folder(path: &str) -> Entry {
    Entry { kind: Kind::Folder, size: 0, content: Content::None, ..file(path, 0, 0o755) }
}

fn link(path: &str, target: &str) -> Entry {
    let content = Content::Target(target.as_bytes().into());
    Entry { kind: Kind::Link, content, ..file(path, 0, 0o777) }
}

fn ignored(path: &str, changed_ns: i64) -> Entry {
    let stamp = Stamp { modified_ns: 5, changed_ns, inode: 7, steady: true };
    Entry { ignored: true, stamp, content: Content::None, ..file(path, 3, 0o644) }
}

fn manifest(entries: &[Entry]) -> Manifest {
    Manifest::new(Place::default(), Arc::default(), entries.to_vec())
}

fn found(before: &[Entry], after: &[Entry]) -> Vec<(String, Aspect, bool)> {
    let (before, after) = (manifest(before), manifest(after));
    changes(&before, &after)
        .map(|change| {
            let path = String::from_utf8(change.path().to_vec()).unwrap();
            (path, change.aspect().unwrap(), change.is_of_content())
        })
        .collect()
}

#[test]
fn each_aspect_of_a_path_is_told_apart() {
    let a = || file("a", 1, 0o644);
    for (before, after, aspect, of_content) in [
        (vec![], vec![a()], Aspect::Added, true),
        (vec![a()], vec![], Aspect::Removed, true),
        (vec![a()], vec![file("a", 2, 0o644)], Aspect::Content, true),
        (vec![a()], vec![file("a", 1, 0o755)], Aspect::Mode, true),
        (vec![a()], vec![file("a", 1, 0o600)], Aspect::Mode, false),
        (vec![a()], vec![folder("a")], Aspect::Kind, true),
        (vec![a()], vec![link("a", "b")], Aspect::Kind, true),
        (vec![link("a", "b")], vec![link("a", "c")], Aspect::Content, true),
        (vec![], vec![folder("a")], Aspect::Added, false),
        (vec![ignored("a", 1)], vec![ignored("a", 2)], Aspect::Content, true),
    ] {
        assert_eq!(found(&before, &after), [("a".to_owned(), aspect, of_content)]);
    }
    let same = [a(), folder("b"), link("c", "d"), ignored("e", 1)];
    assert_eq!(found(&same, &same), []);
}

#[test]
fn times_alone_are_no_change_of_what_was_read() {
    let touched = |changed_ns| {
        let stamp = Stamp { changed_ns, ..Stamp::default() };
        Entry { stamp, ..file("a", 1, 0o644) }
    };
    assert_eq!(found(&[touched(1)], &[touched(2)]), []);
}

#[test]
fn the_digest_is_of_what_is_not_ignored_and_of_nothing_but_names_modes_and_contents() {
    let base = manifest(&[file("a", 1, 0o644), ignored("b", 1)]);
    let touched = Entry { stamp: Stamp { inode: 9, ..Stamp::default() }, ..file("a", 1, 0o644) };
    assert_eq!(digest(&base), digest(&manifest(&[touched, ignored("b", 2)])));
    for other in [file("a", 2, 0o644), file("a", 1, 0o755), file("c", 1, 0o644), folder("a")] {
        assert_ne!(digest(&base), digest(&manifest(&[other])));
    }
    assert_ne!(digest(&base), digest(&manifest(&[file("a", 1, 0o644), folder("b")])));
}

#[test]
fn bytes_that_are_no_manifest_are_refused() {
    assert_eq!(decode(b"something else"), Err(DecodeError::Form));
    let whole = encode(&manifest(&[file("a/b", 1, 0o644), file("a/c", 2, 0o644)]));
    for end in 18..whole.len() {
        assert!(decode(&whole[..end]).is_err(), "cut at {end}");
    }
    let longer = [whole.as_slice(), b"x"].concat();
    assert_eq!(decode(&longer), Err(DecodeError::Value));
}

fn any_content() -> impl Strategy<Value = (Kind, Content)> {
    prop_oneof![
        any::<u8>().prop_map(|byte| {
            let digest = FileDigest { blake3: [byte; 32], sha256: None };
            (Kind::File, Content::File(digest))
        }),
        any::<[u8; 3]>().prop_map(|target| (Kind::Link, Content::Target(target.into()))),
        Just((Kind::Folder, Content::None)),
        Just((Kind::Socket, Content::None)),
        Just((Kind::File, Content::Unreadable)),
    ]
}

prop_compose! {
    fn any_entry()(
        (kind, content) in any_content(),
        mode in 0u32..0o10000,
        size in any::<u64>(),
        ignored in any::<bool>(),
        times in any::<(i64, i64, u64, bool)>(),
    ) -> Entry {
        let (modified_ns, changed_ns, inode, steady) = times;
        let stamp = match content {
            Content::None | Content::Unreadable => Stamp { modified_ns, changed_ns, inode, steady },
            Content::File(_) | Content::Target(_) => Stamp { steady, ..Stamp::default() },
        };
        Entry { path: Box::default(), kind, mode, size, ignored, stamp, content }
    }
}

fn any_tree() -> impl Strategy<Value = BTreeMap<Vec<u8>, Entry>> {
    let path = prop::collection::vec(prop_oneof![Just(b'/'), Just(b'a'), Just(0xff)], 1..6);
    btree_map(path, any_entry(), 0..12)
}

fn of_tree(tree: &BTreeMap<Vec<u8>, Entry>) -> Manifest {
    let entry =
        |(path, entry): (&Vec<u8>, &Entry)| Entry { path: path.clone().into(), ..entry.clone() };
    let rules = IgnoreRules {
        prefix: b"p".to_vec(),
        sources: vec![RuleSource { base: b"s".to_vec(), text: "*.o\n".to_owned() }],
        defaults: true,
        tracked: tree.keys().cloned().collect(),
        counted: vec!["dist/**".to_owned()],
    };
    let place = Place { boot: "b".to_owned(), mount: 1, device: u64::MAX, inode: 3 };
    Manifest::new(place, Arc::new(rules), tree.iter().map(entry).collect())
}

proptest! {
    #[test]
    fn a_stored_manifest_reads_as_it_was(tree in any_tree()) {
        let manifest = of_tree(&tree);
        prop_assert_eq!(decode(&encode(&manifest)), Ok(manifest));
    }

    #[test]
    fn stored_bytes_never_make_a_reader_fail_otherwise(bytes in any::<Vec<u8>>()) {
        drop(decode(&[b"surety manifest 1\n".as_slice(), &bytes].concat()));
    }

    /// The changes name each path that differs, once, in order, and no other.
    #[test]
    fn the_changes_are_what_a_look_at_every_path_tells(one in any_tree(), other in any_tree()) {
        let (before, after) = (of_tree(&one), of_tree(&other));
        let found: Vec<&[u8]> = changes(&before, &after).map(|change| change.path()).collect();
        let mut paths: Vec<&[u8]> = one.keys().chain(other.keys()).map(Vec::as_slice).collect();
        paths.sort_unstable();
        paths.dedup();
        let differs = |path: &&[u8]| {
            let change = Change { before: before.get(path), after: after.get(path) };
            change.aspect().is_some()
        };
        let expected: Vec<&[u8]> = paths.into_iter().filter(differs).collect();
        prop_assert_eq!(found, expected);
    }

    /// Taking the changes back leads to the digest from before.
    #[test]
    fn changes_taken_back_leave_the_digest_as_it_was(one in any_tree(), other in any_tree()) {
        let (before, after) = (of_tree(&one), of_tree(&other));
        let mut mended = after.clone();
        for change in changes(&before, &after) {
            mended.entries.retain(|entry| entry.path.as_ref() != change.path());
            mended.entries.extend(change.before.cloned());
        }
        let mended = Manifest::new(mended.place, mended.rules, mended.entries);
        prop_assert!(changes(&before, &mended).next().is_none());
    }
}
