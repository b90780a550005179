//! The write scopes of steps, and whether two of them overlap.
//!
//! The answer is conservative: globs that both match some path always overlap, and globs that are
//! too costly to compare count as overlapping.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// What a step may write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Writes {
    /// Nothing: every tool that it may call only reads.
    #[default]
    Nothing,
    /// Any file: it may call a tool that writes, and its plan sets no scope.
    Anywhere,
    /// Files that match one of these globs.
    Within(Vec<String>),
}

impl Writes {
    /// Whether two steps could write the same file.
    pub fn overlap(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => false,
            (Self::Anywhere, _) | (_, Self::Anywhere) => true,
            (Self::Within(these), Self::Within(those)) => {
                these.iter().any(|one| those.iter().any(|other| globs_overlap(one, other)))
            }
        }
    }
}

/// Compiles globs of paths relative to a workspace. `*` stays inside one folder, `**` does not, and a
/// glob that ends in `/` means everything below that folder.
///
/// # Errors
/// The first glob that does not read.
pub fn glob_set(globs: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(GlobBuilder::new(&whole(glob)).literal_separator(true).build()?);
    }
    set.build()
}

/// Globs, with all below the folders that they may name: `tests` stands for `tests/` too.
pub fn with_folders(globs: &[String]) -> Vec<String> {
    let folders = globs.iter().filter(|glob| is_name(last_part(glob)));
    globs.iter().cloned().chain(folders.map(|glob| format!("{glob}/"))).collect()
}

/// As [`with_folders`], where `.` stands for the whole workspace.
pub fn with_folders_and_root(globs: &[String]) -> Vec<String> {
    let root = globs.iter().any(|glob| is_root(glob)).then(|| "**".to_owned());
    let others: Vec<String> = globs.iter().filter(|glob| !is_root(glob)).cloned().collect();
    with_folders(&others).into_iter().chain(root).collect()
}

/// The globs of what a step may write: as [`with_folders_and_root`], where a name with an extension is that of a file.
pub fn scope_globs(globs: &[String]) -> Vec<String> {
    let is_file = |glob: &&String| {
        let extension = last_part(glob).trim_start_matches('.').rsplit_once('.');
        extension.is_some_and(|(_, extension)| !extension.is_empty())
    };
    let (files, others): (Vec<&String>, Vec<&String>) = globs.iter().partition(is_file);
    let others: Vec<String> = others.into_iter().cloned().collect();
    files.into_iter().cloned().chain(with_folders_and_root(&others)).collect()
}

fn last_part(glob: &str) -> &str {
    glob.rsplit('/').next().unwrap_or_default()
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && !part.contains(['*', '?', '[', '{', '\\'])
}

fn is_root(glob: &str) -> bool {
    matches!(glob, "." | "./")
}

/// Whether every path that a glob of `inner` matches is surely matched by one of `outer`: a glob is within itself, within a
/// whole folder that it begins with, and, where it names one path, within any glob that matches it.
pub fn is_within(inner: &[String], outer: &[String]) -> bool {
    let [inner, outer] = [inner, outer].map(scope_globs);
    inner.iter().all(|glob| {
        let glob = whole(glob);
        outer.iter().map(|outer| whole(outer)).any(|outer| glob_is_within(&glob, &outer))
    })
}

fn glob_is_within(inner: &str, outer: &str) -> bool {
    let is_open = |glob: &str| glob.contains(['*', '?', '[', ']', '{', '}', '\\']);
    if inner == outer || outer == "**" {
        return true;
    }
    let folder =
        outer.strip_suffix("**").filter(|folder| folder.ends_with('/') && !is_open(folder));
    if folder.is_some_and(|folder| inner.starts_with(folder)) {
        return true;
    }
    !is_open(inner) && glob_set(&[outer.to_owned()]).is_ok_and(|set| set.is_match(inner))
}

/// A glob as it is compiled.
fn whole(glob: &str) -> String {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let rest = if glob.ends_with('/') { "**" } else { "" };
    format!("{glob}{rest}")
}

/// The most globs that braces may expand to; a glob with more overlaps every other.
const MAX_ALTERNATIVES: usize = 64;
/// The most pairs of positions that are compared; longer globs count as overlapping.
const MAX_PAIRS: usize = 1 << 16;
const SEPARATOR: u8 = b'/';

/// Whether some path may match both globs.
pub fn globs_overlap(one: &str, other: &str) -> bool {
    let (Some(these), Some(those)) = (alternatives(one), alternatives(other)) else { return true };
    these.iter().any(|a| those.iter().any(|b| meet(a, b)))
}

/// A part of a glob, over bytes. Each matches at least what the glob's part matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// This byte.
    Byte(u8),
    /// One byte of these.
    One(Bytes),
    /// Any number of bytes of these.
    Many(Bytes),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bytes {
    InsideFolder,
    All,
}

impl Part {
    fn shares_a_byte_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Byte(one), Self::Byte(other)) => one == other,
            (Self::Byte(byte), Self::One(bytes) | Self::Many(bytes))
            | (Self::One(bytes) | Self::Many(bytes), Self::Byte(byte)) => {
                bytes == Bytes::All || byte != SEPARATOR
            }
            (Self::One(_) | Self::Many(_), Self::One(_) | Self::Many(_)) => true,
        }
    }

    fn repeats(self) -> bool {
        matches!(self, Self::Many(_))
    }
}

/// The parts of every expansion of a glob's braces; none for an invalid glob or too many
/// expansions.
fn alternatives(glob: &str) -> Option<Vec<Vec<Part>>> {
    let mut glob = glob.strip_prefix("./").unwrap_or(glob).to_owned();
    if glob.ends_with('/') {
        glob.push_str("**");
    }
    let mut open = vec![glob.into_bytes()];
    let mut parts = Vec::new();
    while let Some(glob) = open.pop() {
        match first_braces(&glob)? {
            None => parts.push(parts_of(&glob)?),
            Some(choices) => open.extend(choices),
        }
        if parts.len() + open.len() > MAX_ALTERNATIVES {
            return None;
        }
    }
    Some(parts)
}

/// The expansions of the first braces of a glob; an inner none when it has no braces.
fn first_braces(glob: &[u8]) -> Option<Option<Vec<Vec<u8>>>> {
    let mut cuts = Vec::new();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = glob.get(at) {
        match byte {
            b'\\' => at += 1,
            b'[' => at = class_end(glob, at)?,
            b'{' => {
                depth += 1;
                if depth == 1 {
                    cuts.push(at);
                }
            }
            b',' if depth == 1 => cuts.push(at),
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    cuts.push(at);
                    return Some(Some(choices(glob, &cuts)));
                }
            }
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then_some(None)
}

/// One glob for each text between two cuts, with the text before the first and after the last.
fn choices(glob: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let (Some(first), Some(last)) = (cuts.first(), cuts.last()) else { return Vec::new() };
    let head = glob.get(..*first).unwrap_or_default();
    let tail = glob.get(last + 1..).unwrap_or_default();
    let between = cuts.windows(2).filter_map(|pair| match pair {
        [from, to] => glob.get(from + 1..*to),
        _ => None,
    });
    between.map(|choice| [head, choice, tail].concat()).collect()
}

/// Where the character class that begins at `from` ends.
fn class_end(glob: &[u8], from: usize) -> Option<usize> {
    let negated = matches!(glob.get(from + 1), Some(b'!' | b'^'));
    // A closing bracket in the first position is a member of the class.
    let first = from + 1 + usize::from(negated);
    let rest = glob.get(first + 1..)?;
    rest.iter().position(|byte| *byte == b']').map(|place| first + 1 + place)
}

fn parts_of(glob: &[u8]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(byte) = glob.get(at) {
        match byte {
            b'\\' => {
                at += 1;
                parts.push(Part::Byte(*glob.get(at)?));
            }
            b'*' => {
                let stars = glob.iter().skip(at).take_while(|byte| **byte == b'*').count();
                at += stars - 1;
                if stars == 1 {
                    parts.push(Part::Many(Bytes::InsideFolder));
                } else {
                    parts.push(Part::Many(Bytes::All));
                    // `a/**/b` matches `a/b` too.
                    at += usize::from(glob.get(at + 1) == Some(&SEPARATOR));
                }
            }
            // A character may be several bytes, or each byte one.
            b'?' => parts.extend(at_least_one(Bytes::InsideFolder)),
            b'[' => {
                let end = class_end(glob, at)?;
                let inside = glob.get(at + 1..end).unwrap_or_default();
                let plain = inside.iter().all(u8::is_ascii_alphanumeric) || is_plain_range(inside);
                parts.extend(at_least_one(if plain { Bytes::InsideFolder } else { Bytes::All }));
                at = end;
            }
            byte => parts.push(Part::Byte(*byte)),
        }
        at += 1;
    }
    Some(parts)
}

/// A range of letters or digits, which contains no separator.
fn is_plain_range(inside: &[u8]) -> bool {
    match inside {
        [from, b'-', to] => from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric(),
        _ => false,
    }
}

const fn at_least_one(bytes: Bytes) -> [Part; 2] {
    [Part::One(bytes), Part::Many(bytes)]
}

/// Whether some text matches both: a search over the pairs of positions that one text can reach.
fn meet(one: &[Part], other: &[Part]) -> bool {
    let width = other.len() + 1;
    if (one.len() + 1).saturating_mul(width) > MAX_PAIRS {
        return true;
    }
    let mut seen = vec![false; (one.len() + 1) * width];
    let mut open = vec![(0, 0)];
    while let Some((i, j)) = open.pop() {
        match seen.get_mut(i * width + j) {
            Some(seen) if !*seen => *seen = true,
            Some(_) | None => continue,
        }
        let (a, b) = (one.get(i).copied(), other.get(j).copied());
        if a.is_none() && b.is_none() {
            return true;
        }
        if a.is_some_and(Part::repeats) {
            open.push((i + 1, j));
        }
        if b.is_some_and(Part::repeats) {
            open.push((i, j + 1));
        }
        if let (Some(a), Some(b)) = (a, b)
            && a.shares_a_byte_with(b)
        {
            open.push((i + usize::from(!a.repeats()), j + usize::from(!b.repeats())));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn globs_overlap_where_some_path_matches_both() {
        for (one, other, expected) in [
            ("src/**", "docs/**", false),
            ("src/**", "src/a/b.rs", true),
            ("src/", "src/a.rs", true),
            ("src/**", "srcs/**", false),
            ("src/*.rs", "src/*.md", false),
            ("src/*.rs", "src/a/*.rs", false),
            ("src/a*", "src/*b", true),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("a/**/b", "a/b", true),
            ("**/README.md", "docs/**", true),
            ("./README.md", "README.md", true),
            ("{src,docs}/**", "docs/a", true),
            ("{src,tests}/**", "{docs,examples}/**", false),
            ("a{b,c{d,e}}f", "acef", true),
            ("a{b,c{d,e}}f", "acf", false),
            ("[ab].txt", "b.txt", true),
            ("[a-c].txt", "x/b.txt", false),
            ("[!a]x", "bx", true),
            (r"\*.txt", "a.txt", false),
            (r"\*.txt", "*.txt", true),
            ("größe/**", "größe/ä", true),
            ("文档/**", "代码/**", false),
            ("src/[", "docs/**", true),
            ("README.md", "readme.md", false),
        ] {
            assert_eq!(globs_overlap(one, other), expected, "{one} {other}");
            assert_eq!(globs_overlap(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn a_scope_is_within_another_only_where_that_is_sure() {
        for (inner, outer, expected) in [
            (&["src/**"][..], &["src/**"][..], true),
            (&["./src/"], &["src/**"], true),
            (&["src/a.rs"], &["src/**"], true),
            (&["src/*.rs", "docs/a.md"], &["docs/*.md", "src/"], true),
            (&["any/*"], &["**"], true),
            (&["src/{a,b}.rs"], &["src/**"], true),
            (&["README.md"], &["*.{md,txt}"], true),
            (&["srcs/a.rs"], &["src/**"], false),
            (&["src/**", "evil.txt"], &["src/**"], false),
            (&["**"], &["src/**"], false),
            (&["{src/a,evil}"], &["src/**"], false),
            (&["src/a/b.rs"], &["src/*"], false),
            (&["*.md"], &["*.{md,txt}"], false),
            (&["src/../evil"], &["src/*"], false),
            (&["src/a.rs", "src/b/", "src"], &["src"], true),
            (&["src/**", "x"], &["."], true),
            (&["."], &["src"], false),
            (&["src"], &["src/*"], false),
            (&["src/a.rs"], &["src/*"], true),
        ] {
            let globs = |globs: &[&str]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(is_within(&globs(inner), &globs(outer)), expected, "{inner:?} {outer:?}");
        }
    }

    #[test]
    fn the_name_of_a_folder_stands_for_all_below_it() {
        let texts = |globs: &[&str]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (globs, path, named, in_scope) in [
            (&["docs"][..], "docs/a/b.md", true, true),
            (&["docs"], "docs", true, true),
            (&["./docs"], "docs/a", true, true),
            (&["docs"], "docs2/a", false, false),
            (&["docs"], "a/docs/b", false, false),
            (&["docs/*"], "docs/a/b", false, false),
            (&["."], "a/b", true, true),
            (&["./"], "a", true, true),
            (&[".github"], ".github/x", true, true),
            (&["a.md"], "a.md", true, true),
            (&["a.md"], "a.md/b", true, false),
        ] {
            let globs = texts(globs);
            for (all, expected) in
                [(with_folders_and_root(&globs), named), (scope_globs(&globs), in_scope)]
            {
                assert_eq!(glob_set(&all).unwrap().is_match(path), expected, "{all:?} {path}");
            }
        }
    }

    #[test]
    fn what_costs_too_much_to_tell_overlaps_and_costs_little() {
        let wide = "{a,b}".repeat(20);
        assert!(globs_overlap(&wide, "z"));
        let long = |byte: &str| byte.repeat(1000);
        assert!(globs_overlap(&long("a"), &long("b")));
    }

    #[test]
    fn a_step_without_bounds_overlaps_with_all_that_write() {
        let within = Writes::Within(vec!["src/**".to_owned()]);
        let other = Writes::Within(vec!["docs/**".to_owned(), "a".to_owned()]);
        for (one, other, expected) in [
            (&Writes::Nothing, &Writes::Anywhere, false),
            (&Writes::Anywhere, &Writes::Anywhere, true),
            (&Writes::Anywhere, &within, true),
            (&within, &other, false),
            (&within, &within, true),
            (&Writes::Nothing, &Writes::Nothing, false),
        ] {
            assert_eq!(one.overlap(other), expected, "{one:?} {other:?}");
            assert_eq!(other.overlap(one), expected, "{other:?} {one:?}");
        }
    }

    /// Few letters, so that two globs often overlap.
    fn glob() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "a", "b", "ä", "/", "*", "**", "**/", "/**", "/**/", "?", "[ab]", "[!a]", "[a-b]",
            "[.-0]", "{a,b}", "{a/,*}", "{,ä}", r"\*", ".",
        ]);
        prop::collection::vec(part, 1..7).prop_map(|parts| parts.concat())
    }

    fn path() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec!["a", "b", "ä", "/", "*", ".", "c"]);
        prop::collection::vec(part, 1..7).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

        #[test]
        fn globs_that_match_one_path_overlap(
            one in glob(),
            other in glob(),
            paths in prop::collection::vec(path(), 24),
        ) {
            let read = |glob: &str| glob_set(&[glob.to_owned()]);
            if let (Ok(a), Ok(b)) = (read(&one), read(&other)) {
                for path in paths.iter().filter(|path| a.is_match(path) && b.is_match(path)) {
                    prop_assert!(globs_overlap(&one, &other), "{one} and {other} match {path}");
                }
            }
        }

        #[test]
        fn whatever_a_glob_is_looking_at_it_ends(one in ".{0,40}", other in ".{0,40}") {
            prop_assert_eq!(globs_overlap(&one, &other), globs_overlap(&other, &one));
            prop_assert!(globs_overlap(&one, &one));
        }

        #[test]
        fn a_glob_overlaps_with_every_path_it_matches(glob in glob(), path in path()) {
            let read = glob_set(std::slice::from_ref(&glob));
            if let Ok(read) = read && read.is_match(&path) {
                let literal: String = path.chars().flat_map(|c| ['\\', c]).collect();
                prop_assert!(globs_overlap(&glob, &literal), "{} matches {}", glob, path);
            }
        }
    }
}
