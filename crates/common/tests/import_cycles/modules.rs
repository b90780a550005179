//! The modules of a crate, and which of them imports from which.
//!
//! ```text
//!   source --syn--> modules: items, uses, paths --resolve--> edges --> cycles
//! ```
//!
//! A path is an edge to the module that defines what it names, wherever that is re-exported. A
//! re-export and the declaration of a child module are no edges, because they use nothing. Code under
//! `cfg(test)` does not count.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// Steps of a re-export that are followed at most.
const LONGEST_CHAIN: usize = 16;

type Name = Vec<String>;

/// Every module of a crate, by its path from the crate's root.
#[derive(Default)]
pub(crate) struct Modules {
    by_name: BTreeMap<Name, Module>,
}

#[derive(Default)]
struct Module {
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    uses: HashMap<String, Name>,
    globs: Vec<Name>,
    /// What its code names: private imports, and paths of several words.
    paths: Vec<Name>,
}

impl Modules {
    /// Reads the crate whose `lib.rs` lies in a folder.
    ///
    /// # Errors
    /// The file that cannot be read or parsed, and why.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let mut modules = Self::default();
        modules.file(&folder.join("lib.rs"), folder, Vec::new())?;
        Ok(modules)
    }

    /// `below` is where the files of its child modules lie.
    fn file(&mut self, file: &Path, below: &Path, name: Name) -> Result<(), String> {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{shown}: {error}"))?;
        self.module(&parsed.items, below, name)
    }

    fn module(&mut self, items: &[Item], below: &Path, name: Name) -> Result<(), String> {
        let mut module = Module::default();
        let mut children = Vec::new();
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let Item::Mod(child) = item {
                module.children.insert(child.ident.to_string());
                children.push(child);
                continue;
            }
            module.items.extend(defined(item));
            module.visit_item(item);
        }
        self.by_name.insert(name.clone(), module);
        for child in children {
            let word = child.ident.to_string();
            let (name, below) = (joined(&name, &word), below.join(&word));
            match &child.content {
                Some((_, items)) => self.module(items, &below, name)?,
                None => self.file(&found(&below), &below, name)?,
            }
        }
        Ok(())
    }

    /// The modules that each module imports from.
    fn edges(&self) -> BTreeMap<&Name, BTreeSet<&Name>> {
        let edges = self.by_name.iter().map(|(name, module)| {
            let defining = module.paths.iter().filter_map(|path| self.resolve(name, path, 0));
            (name, defining.filter(|other| *other != name).collect())
        });
        edges.collect()
    }

    /// The module that defines what a path in `from` names; none for another crate's, and for a path
    /// that names no more than a module.
    fn resolve(&self, from: &Name, path: &[String], depth: usize) -> Option<&Name> {
        let (first, rest) = path.split_first()?;
        if depth > LONGEST_CHAIN {
            return None;
        }
        match first.as_str() {
            "crate" => self.within(Vec::new(), rest, depth),
            "self" => self.within(from.clone(), rest, depth),
            "super" => {
                let (_, parent) = from.split_last()?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.resolve(&parent.to_vec(), rest, depth),
                    _ => self.within(parent.to_vec(), rest, depth),
                }
            }
            _ => self.within_if_known(from, path, depth),
        }
    }

    /// As [`Self::within`], but none where the module has nothing of that name.
    fn within_if_known(&self, name: &Name, path: &[String], depth: usize) -> Option<&Name> {
        let (module, first) = (self.by_name.get(name)?, path.first()?);
        if module.children.contains(first) || module.items.contains(first) {
            return self.within(name.clone(), path, depth);
        }
        if let Some(target) = module.uses.get(first) {
            let target: Name = target.iter().chain(path.iter().skip(1)).cloned().collect();
            return self.resolve(name, &target, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let target = self.module_named(name, glob, depth + 1)?;
            (target != *name).then(|| self.within_if_known(&target, path, depth + 1))?
        })
    }

    fn within(&self, name: Name, path: &[String], depth: usize) -> Option<&Name> {
        let (known, module) = self.by_name.get_key_value(&name)?;
        let (first, rest) = path.split_first()?;
        if module.children.contains(first) {
            return self.within(joined(&name, first), rest, depth);
        }
        if module.items.contains(first) {
            return Some(known);
        }
        // What a macro made is not seen, and is taken to be the module's own.
        let imported = module.uses.contains_key(first);
        self.within_if_known(&name, path, depth).or((!imported).then_some(known))
    }

    /// The module that a path names.
    fn module_named(&self, from: &Name, path: &[String], depth: usize) -> Option<Name> {
        if depth > LONGEST_CHAIN {
            return None;
        }
        let mut at = from.clone();
        for (place, word) in path.iter().enumerate() {
            match word.as_str() {
                "crate" => at = Vec::new(),
                "self" => {}
                "super" => {
                    at.pop()?;
                }
                word => {
                    let module = self.by_name.get(&at)?;
                    if module.children.contains(word) {
                        at.push(word.to_owned());
                    } else {
                        let target = module.uses.get(word)?;
                        let target: Name =
                            target.iter().chain(&path[place + 1..]).cloned().collect();
                        return self.module_named(&at, &target, depth + 1);
                    }
                }
            }
        }
        self.by_name.contains_key(&at).then_some(at)
    }

    /// The cycles of imports, each by the shortest one through its first module. A group of modules
    /// that import from one another in several ways shows one of them.
    pub(crate) fn cycles(&self) -> Vec<Cycle> {
        let edges = self.edges();
        let mut grouped: BTreeSet<&Name> = BTreeSet::new();
        let mut cycles = Vec::new();
        for &start in edges.keys() {
            if grouped.contains(start) {
                continue;
            }
            if let Some(cycle) = shortest_cycle(&edges, start) {
                let reaches_back = |other: &&Name| reached(&edges, other).contains(start);
                grouped.extend(reached(&edges, start).into_iter().filter(reaches_back));
                cycles.push(Cycle(cycle.into_iter().map(shown).collect()));
            }
        }
        cycles
    }
}

/// Modules that import from one another, in the order of the imports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cycle(Vec<String>);

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for module in &self.0 {
            write!(f, "{module} -> ")?;
        }
        f.write_str(self.0.first().map_or("", String::as_str))
    }
}

type Edges<'a> = BTreeMap<&'a Name, BTreeSet<&'a Name>>;

/// Every module that one imports from, directly or through others.
fn reached<'a>(edges: &Edges<'a>, from: &Name) -> BTreeSet<&'a Name> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&Name> = vec![from];
    while let Some(at) = open.pop() {
        for next in edges.get(at).into_iter().flatten() {
            if seen.insert(*next) {
                open.push(next);
            }
        }
    }
    seen
}

/// The shortest way from a module back to itself.
fn shortest_cycle<'a>(edges: &Edges<'a>, start: &'a Name) -> Option<Vec<&'a Name>> {
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in edges.get(*way.last()?).into_iter().flatten() {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                ways.push_back(way.iter().copied().chain([*next]).collect());
            }
        }
    }
    None
}

fn shown(name: &Name) -> String {
    std::iter::once("crate").chain(name.iter().map(String::as_str)).collect::<Vec<_>>().join("::")
}

fn joined(name: &Name, word: &str) -> Name {
    name.iter().cloned().chain([word.to_owned()]).collect()
}

fn found(below: &Path) -> PathBuf {
    let file = below.with_extension("rs");
    if file.exists() { file } else { below.join("mod.rs") }
}

impl Module {
    fn import(&mut self, prefix: &[String], tree: &UseTree, public: bool) {
        match tree {
            UseTree::Path(path) => {
                let prefix = joined(&prefix.to_vec(), &path.ident.to_string());
                self.import(&prefix, &path.tree, public);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(prefix, tree, public);
                }
            }
            UseTree::Glob(_) => self.globs.push(prefix.to_vec()),
            UseTree::Name(name) => {
                let word = name.ident.to_string();
                if word == "self" {
                    let alias = prefix.last().cloned().unwrap_or_default();
                    self.name(alias, prefix.to_vec(), public);
                } else {
                    self.name(word.clone(), joined(&prefix.to_vec(), &word), public);
                }
            }
            UseTree::Rename(rename) => {
                let word = rename.ident.to_string();
                let target =
                    if word == "self" { prefix.to_vec() } else { joined(&prefix.to_vec(), &word) };
                self.name(rename.rename.to_string(), target, public);
            }
        }
    }

    fn name(&mut self, alias: String, target: Name, public: bool) {
        if !public {
            self.paths.push(target.clone());
        }
        self.uses.insert(alias, target);
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Name = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end(&mut path);
                    self.tokens(group.stream());
                    colons = 0;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.end(&mut path);
                    colons = 0;
                }
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Name) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.paths.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let public = !matches!(item.vis, Visibility::Inherited);
        self.import(&[], &item.tree, public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.paths
                .push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

#[expect(clippy::wildcard_enum_match_arm, reason = "syn's enum is not exhaustive")]
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "syn's enum is not exhaustive")]
fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
