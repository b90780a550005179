//! Paths as text: resolved against a workspace's root and normalized. The file system is not read,
//! so a caller that opens a file must check for symbolic links.

use std::borrow::Cow;

/// A workspace's root, normalized once for many paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    absolute: bool,
    root: Vec<String>,
}

impl Workspace {
    /// The workspace at this root. With an empty root, relative paths are inside it and absolute
    /// ones are not.
    pub fn new(root: &str) -> Self {
        let absolute = root.starts_with('/');
        let mut parts = Vec::new();
        push_parts(&mut parts, root, absolute);
        Self { absolute, root: parts.into_iter().map(str::to_owned).collect() }
    }

    /// The path relative to the root, normalized, without a leading or trailing slash; empty for
    /// the root itself. None when the path leaves the workspace. The path is normalized first, so
    /// that `../p/a.txt` is inside `/srv/p`.
    pub fn resolve<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        if is_clean(path) {
            return Some(Cow::Borrowed(path));
        }
        let absolute = path.starts_with('/');
        if absolute && !self.absolute {
            return None;
        }
        let mut parts: Vec<&str> = Vec::new();
        if !absolute {
            parts.extend(self.root.iter().map(String::as_str));
        }
        push_parts(&mut parts, path, self.absolute);
        let inside = parts.get(self.root.len()..)?;
        let same_root = parts.iter().zip(&self.root).all(|(part, root)| part == root);
        if !same_root || inside.first() == Some(&"..") {
            return None;
        }
        Some(Cow::Owned(inside.join("/")))
    }
}

/// Whether the path is relative and normalized, as most recorded paths are; these need no
/// allocation.
fn is_clean(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Appends the parts of `path`. The file system's root is its own parent, so `/..` is `/`; a
/// relative path may leave its start.
fn push_parts<'p>(parts: &mut Vec<&'p str>, path: &'p str, absolute: bool) {
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                Some(_) => parts.push(part),
                None if absolute => {}
                None => parts.push(part),
            },
            _ => parts.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inside(root: &str, path: &str) -> Option<String> {
        Workspace::new(root).resolve(path).map(Cow::into_owned)
    }

    #[test]
    fn paths_are_resolved_against_the_root_and_cleaned() {
        for (path, clean) in [
            ("a.txt", "a.txt"),
            ("./a.txt", "a.txt"),
            ("b/../a.txt", "a.txt"),
            ("b//c/./d/", "b/c/d"),
            ("/srv/p/a.txt", "a.txt"),
            ("/srv//p/./b/../a.txt", "a.txt"),
            ("/srv/q/../p/a.txt", "a.txt"),
            ("../p/a.txt", "a.txt"),
            ("../../srv/p/a.txt", "a.txt"),
            ("../../../../srv/p/a.txt", "a.txt"),
            ("...", "..."),
            ("..a", "..a"),
            ("文档/说明.md", "文档/说明.md"),
            (".", ""),
            ("", ""),
            ("/srv/p", ""),
        ] {
            assert_eq!(inside("/srv/p", path).as_deref(), Some(clean), "{path}");
        }
    }

    #[test]
    fn a_path_that_leaves_the_workspace_is_outside() {
        for path in [
            "..",
            "../a.txt",
            "../p2/a.txt",
            "../../etc/passwd",
            "/etc/passwd",
            "/srv/p2/a.txt",
            "/srv/P/a.txt",
            "/srv",
            "/",
            "a/../../b",
        ] {
            assert_eq!(inside("/srv/p", path), None, "{path}");
        }
    }

    #[test]
    fn the_root_is_cleaned_too() {
        for root in ["/srv/p/", "/srv/./p", "/srv/x/../p", "//srv/p"] {
            assert_eq!(inside(root, "/srv/p/a").as_deref(), Some("a"), "{root}");
            assert_eq!(inside(root, "../p/a").as_deref(), Some("a"), "{root}");
            assert_eq!(inside(root, "../a"), None, "{root}");
        }
        assert_eq!(inside("/", "/etc/passwd").as_deref(), Some("etc/passwd"));
        assert_eq!(inside("/", "../../a").as_deref(), Some("a"));
    }

    #[test]
    fn a_root_that_is_relative_or_empty_holds_relative_paths_only() {
        assert_eq!(inside("", "./a").as_deref(), Some("a"));
        assert_eq!(inside("", "../a"), None);
        assert_eq!(inside("", "/a"), None);
        assert_eq!(inside("p", "../p/a").as_deref(), Some("a"));
        assert_eq!(inside("p", "../../p/a"), None);
        assert_eq!(inside("p", "/p/a"), None);
    }

    proptest! {
        #[test]
        fn a_cleaned_path_stays_what_it_is(path in "[./a-c]{0,24}") {
            if let Some(clean) = inside("/srv/p", &path) {
                prop_assert!(!clean.split('/').any(|part| part == ".." || part == "."));
                prop_assert_eq!(inside("/srv/p", &clean), Some(clean.clone()));
                prop_assert_eq!(inside("/srv/p", &format!("/srv/p/{clean}")), Some(clean));
            }
        }
    }
}
