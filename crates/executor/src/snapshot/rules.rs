//! Which paths are ignored: by ignore files, by what git tracks, and by well-known names where no
//! ignore file says anything.

use super::git::{self, WorkTree};
use crate::tool::write::TEMPORARY;
use crate::tool::{ToolError, Workspace, WriteScope};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::check_inputs::{IGNORE_FILE, is_ignored_input};
use surety_common::domain::manifest::{Entry, IgnoreRules, RuleSource};

/// Folders that hold what tools make, where no ignore file says so.
const DEFAULTS: [&str; 19] = [
    "target",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".gradle",
    ".next",
    ".nuxt",
    ".turbo",
    ".cache",
    "coverage",
    "dist",
    "build",
    "out",
    "obj",
];
/// The same, as the last two names of a path.
const DEFAULT_PAIRS: [&[u8]; 2] = [b"bin/Debug", b"bin/Release"];

/// Judges paths.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) rules: Arc<IgnoreRules>,
    prefix: PathBuf,
    /// The rules of the workspace's own root and of all above it.
    root: Option<Arc<Chain>>,
    /// The rules of folders inside, by their path from the root.
    inside: HashMap<Vec<u8>, Arc<Gitignore>>,
    counted: Option<WriteScope>,
}

/// Rules that hold in one folder, the strongest first.
#[derive(Debug)]
pub(super) struct Chain {
    matcher: Arc<Gitignore>,
    up: Option<Arc<Chain>>,
}

/// How one path stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// The rules name it, or a folder above it.
    pub(super) ruled: bool,
    /// It is ignored: the rules name it, and git tracks neither it nor anything in it.
    pub(super) ignored: bool,
    /// Its content counts although it is ignored.
    pub(super) counted: bool,
    /// The same, where it is small: it is a check input by convention.
    pub(super) kept: bool,
}

/// What was known before the first walk.
pub(super) struct Start {
    rules: IgnoreRules,
}

/// Reads the rules that hold before any folder is entered.
///
/// # Errors
/// git's index does not read.
pub(super) fn read(workspace: &Workspace, counted: &[String]) -> Result<(Judge, Start), ToolError> {
    let root = workspace.root();
    let mut rules = match WorkTree::around(root) {
        Some(tree) => of_tree(&tree, root)?,
        None => IgnoreRules::default(),
    };
    if is_ignored_itself(&rules) {
        rules = IgnoreRules::default();
    }
    if let Ok(Some(text)) = git::read_text(&root.join(IGNORE_FILE)) {
        rules.sources.push(RuleSource { base: rules.prefix.clone(), text });
    }
    rules.defaults = rules.sources.iter().all(|source| matcher(source).is_none());
    rules.counted = counted.to_vec();
    let judge = Judge::of(&Arc::new(rules.clone()))?;
    Ok((judge, Start { rules }))
}

fn of_tree(tree: &WorkTree, root: &Path) -> Result<IgnoreRules, ToolError> {
    let prefix = root.strip_prefix(&tree.top).unwrap_or(Path::new(""));
    let mut sources = Vec::new();
    let exclude = tree.exclude();
    sources.extend(exclude.map(|text| RuleSource { base: Vec::new(), text }));
    let mut above: Vec<&Path> = prefix.ancestors().skip(1).collect();
    above.reverse();
    for folder in above {
        if let Ok(Some(text)) = git::read_text(&tree.top.join(folder).join(IGNORE_FILE)) {
            sources.push(RuleSource { base: folder.as_os_str().as_bytes().to_vec(), text });
        }
    }
    let prefix = prefix.as_os_str().as_bytes().to_vec();
    let tracked = tree.tracked()?;
    let tracked = match prefix.as_slice() {
        [] => tracked,
        prefix => {
            let folder = git::joined(prefix, b"");
            let inside = |path: &Vec<u8>| path.strip_prefix(folder.as_slice()).map(<[u8]>::to_vec);
            tracked.iter().filter_map(inside).collect()
        }
    };
    Ok(IgnoreRules { prefix, sources, tracked, ..IgnoreRules::default() })
}

/// The rules of a revision, whose files lie in the folder `checkout` as they would in a work tree. `paths`
/// is every path of the revision in the workspace, relative to it and sorted.
pub(crate) fn of_revision(
    tree: &WorkTree,
    root: &Path,
    checkout: &Path,
    paths: Vec<Vec<u8>>,
    counted: &[String],
) -> IgnoreRules {
    let prefix = root.strip_prefix(&tree.top).unwrap_or(Path::new(""));
    let inside = paths.iter().filter_map(|path| path.strip_suffix(IGNORE_FILE.as_bytes()));
    let inside = inside.filter_map(|folder| match folder {
        [] => Some(prefix.to_owned()),
        folder => folder.strip_suffix(b"/").map(|folder| prefix.join(OsStr::from_bytes(folder))),
    });
    let mut above: Vec<_> = prefix.ancestors().skip(1).map(Path::to_owned).collect();
    above.reverse();
    let mut inside: Vec<_> = inside.collect();
    inside.sort_unstable();
    let exclude = tree.exclude().map(|text| RuleSource { base: Vec::new(), text });
    let files = above.into_iter().chain(inside).filter_map(|folder| {
        let file = checkout.join(&folder).join(IGNORE_FILE);
        // A link is no rule file, as git sees it.
        let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
        let text = is_file.then(|| git::read_text(&file).ok().flatten()).flatten()?;
        Some(RuleSource { base: folder.as_os_str().as_bytes().to_vec(), text })
    });
    let sources: Vec<_> = exclude.into_iter().chain(files).collect();
    let prefix = prefix.as_os_str().as_bytes().to_vec();
    let mut rules = IgnoreRules { prefix, sources, tracked: paths, ..IgnoreRules::default() };
    if is_ignored_itself(&rules) {
        rules = IgnoreRules::default();
    }
    rules.defaults = rules.sources.iter().all(|source| matcher(source).is_none());
    rules.counted = counted.to_vec();
    rules
}

/// The same rules without the repository's own list of ignored files.
pub(super) fn without_exclude(rules: &IgnoreRules, exclude: &str) -> IgnoreRules {
    let mut others = IgnoreRules::clone(rules);
    others.sources.retain(|source| !(source.base.is_empty() && source.text == exclude));
    others.defaults = others.sources.iter().all(|source| matcher(source).is_none());
    others
}

/// A workspace in a folder that its work tree ignores, and of which git tracks nothing, is no part of
/// that work tree: by its rules all would be ignored.
fn is_ignored_itself(rules: &IgnoreRules) -> bool {
    if rules.prefix.is_empty() || !rules.tracked.is_empty() {
        return false;
    }
    let matchers: Vec<_> = rules.sources.iter().filter_map(matcher).collect();
    let prefix = Path::new(OsStr::from_bytes(&rules.prefix));
    let folders = prefix.ancestors().filter(|folder| !folder.as_os_str().is_empty());
    folders.into_iter().any(|folder| {
        let said = matchers.iter().rev().map(|matcher| matcher.matched(folder, true));
        said.into_iter().find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
    })
}

impl Start {
    /// The rules of the first snapshot as they are kept: with those that the walk found, and of what
    /// git tracks only what the rules alone would ignore, or what was not there.
    pub(super) fn rules(
        self,
        mut found: Vec<RuleSource>,
        entries: &[Entry],
        exempt: Vec<Vec<u8>>,
    ) -> IgnoreRules {
        let mut rules = self.rules;
        found.sort_unstable_by(|a, b| a.base.cmp(&b.base));
        rules.sources.extend(found);
        let mut there: Vec<&[u8]> = entries.iter().map(|entry| entry.path.as_ref()).collect();
        there.sort_unstable();
        rules.tracked.retain(|path| there.binary_search(&path.as_slice()).is_err());
        rules.tracked.extend(exempt);
        rules.tracked.sort_unstable();
        rules.tracked.dedup();
        rules
    }
}

impl Judge {
    /// A judge by these rules.
    ///
    /// # Errors
    /// A glob of what counts does not read.
    pub(super) fn of(rules: &Arc<IgnoreRules>) -> Result<Self, ToolError> {
        let mut root = None;
        let mut inside = HashMap::new();
        for source in &rules.sources {
            let Some(matcher) = matcher(source).map(Arc::new) else { continue };
            match inner(&rules.prefix, &source.base) {
                Some(folder) => drop(inside.insert(folder, matcher)),
                None => root = Some(Arc::new(Chain { matcher, up: root })),
            }
        }
        let counted = match rules.counted.as_slice() {
            [] => None,
            globs => Some(WriteScope::new(globs)?),
        };
        let prefix = PathBuf::from(OsStr::from_bytes(&rules.prefix));
        Ok(Self { rules: Arc::clone(rules), prefix, root, inside, counted })
    }

    /// The rules that hold at the root.
    pub(super) fn at_root(&self) -> Option<Arc<Chain>> {
        self.root.clone()
    }

    /// The rules in a folder, which are those above it and its own.
    pub(super) fn within(&self, above: Option<Arc<Chain>>, folder: &[u8]) -> Option<Arc<Chain>> {
        match self.inside.get(folder) {
            Some(matcher) => Some(Arc::new(Chain { matcher: Arc::clone(matcher), up: above })),
            None => above,
        }
    }

    /// The rules of a file that the first walk found in a folder, over those above it.
    pub(super) fn found(
        &self,
        above: Option<Arc<Chain>>,
        folder: &[u8],
        text: String,
    ) -> (Option<Arc<Chain>>, RuleSource) {
        let source = RuleSource { base: git::joined(&self.rules.prefix, folder), text };
        match matcher(&source).map(Arc::new) {
            Some(matcher) => (Some(Arc::new(Chain { matcher, up: above })), source),
            None => (above, source),
        }
    }

    /// How a path stands in a folder with these rules. `ruled` says whether the rules name the folder.
    pub(super) fn standing(
        &self,
        chain: Option<&Arc<Chain>>,
        ruled: bool,
        path: &[u8],
        is_folder: bool,
    ) -> Standing {
        let ruled = ruled || self.is_ruled(chain, path, is_folder);
        let tracked = ruled && if is_folder { self.tracks_in(path) } else { self.tracks(path) };
        let counts = |counted: &WriteScope| counted.allows(Path::new(OsStr::from_bytes(path)));
        let ignored = ruled && !tracked;
        let counted = ignored && self.counted.as_ref().is_some_and(counts);
        let kept = ignored && !is_folder && is_ignored_input(&String::from_utf8_lossy(path));
        Standing { ruled, ignored, counted, kept }
    }

    fn is_ruled(&self, chain: Option<&Arc<Chain>>, path: &[u8], is_folder: bool) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        // A file that a tool is writing has this name for a moment.
        if name.starts_with(TEMPORARY.as_bytes()) {
            return true;
        }
        if is_folder && self.rules.defaults && is_default(path, name) && !self.tracks_in(path) {
            return true;
        }
        let mut next = chain;
        if next.is_none() {
            return false;
        }
        let inner = Path::new(OsStr::from_bytes(path));
        let full;
        let full = if self.prefix.as_os_str().is_empty() {
            inner
        } else {
            full = self.prefix.join(inner);
            &full
        };
        while let Some(chain) = next {
            match chain.matcher.matched(full, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => next = chain.up.as_ref(),
            }
        }
        false
    }

    fn tracks(&self, path: &[u8]) -> bool {
        self.rules.tracked.binary_search_by(|tracked| tracked.as_slice().cmp(path)).is_ok()
    }

    fn tracks_in(&self, folder: &[u8]) -> bool {
        let folder = git::joined(folder, b"");
        let first = self.rules.tracked.partition_point(|path| path.as_slice() < folder.as_slice());
        self.rules.tracked.get(first).is_some_and(|path| path.starts_with(&folder))
    }
}

fn is_default(path: &[u8], name: &[u8]) -> bool {
    let ends_with = |pair: &&[u8]| {
        path.strip_suffix(*pair).is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
    };
    DEFAULTS.iter().any(|default| name == default.as_bytes()) || DEFAULT_PAIRS.iter().any(ends_with)
}

/// The folder inside the workspace that rules belong to; none for its root and what is above.
fn inner(prefix: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let folder = match prefix {
        [] => base,
        prefix => base.strip_prefix(git::joined(prefix, b"").as_slice())?,
    };
    (!folder.is_empty()).then(|| folder.to_vec())
}

/// What these rules of one folder name: answers for the path of a file, relative to that folder.
pub(crate) fn named_by(texts: &[&str]) -> impl Fn(&[u8]) -> bool + use<> {
    let source = |text: &&str| RuleSource { base: Vec::new(), text: (*text).to_owned() };
    let matchers: Vec<_> = texts.iter().map(source).filter_map(|it| matcher(&it)).collect();
    move |path| {
        let path = Path::new(OsStr::from_bytes(path));
        let said = matchers.iter().map(|rules| rules.matched_path_or_any_parents(path, false));
        said.into_iter().any(|said| said.is_ignore())
    }
}

/// The rules of a start for one folder of the workspace.
pub(crate) fn texts_in<'r>(rules: &'r IgnoreRules, folder: &[u8]) -> Vec<&'r str> {
    let base = match folder {
        [] => rules.prefix.clone(),
        folder => git::joined(&rules.prefix, folder),
    };
    let sources = rules.sources.iter().filter(|source| source.base == base);
    sources.map(|source| source.text.as_str()).collect()
}

/// None when there is no rule in the text.
fn matcher(source: &RuleSource) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(Path::new(OsStr::from_bytes(&source.base)));
    for line in source.text.lines() {
        if let Err(error) = builder.add_line(None, line) {
            tracing::debug!(line, %error, "snapshot: an ignore rule does not read");
        }
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
