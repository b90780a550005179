//! Parses one source file and finds the places of a name.

mod container;
mod text;

use crate::language::Language;
use crate::message::{Role, Symbol};
use crate::names::{Name, words};
use container::container_of;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;
use std::time::Instant;
use text::Columns;
use tree_sitter::{
    Node, ParseOptions, Query, QueryCursor, QueryCursorOptions, StreamingIterator, Tree,
};

/// The places between two looks at the clock.
const BETWEEN_LOOKS: usize = 256;

/// Why a file has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The time was over.
    TooSlow,
    /// The grammar or its query does not fit the parser library: a defect that the tests find.
    Grammar,
}

/// How many places are described; all are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Definitions.
    pub definitions: usize,
    /// Uses.
    pub uses: usize,
}

/// The places of a name in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// In the order of the file.
    pub symbols: Vec<Symbol>,
    /// All definitions.
    pub definitions: u64,
    /// All uses.
    pub uses: u64,
}

/// Parses files of all languages for one name. A grammar is loaded with its first file.
#[derive(Debug)]
pub struct Parser {
    name: Name,
    loaded: HashMap<Language, Loaded>,
}

struct Loaded {
    parser: tree_sitter::Parser,
    query: Query,
    /// What each capture of the query stands for.
    captures: Vec<Capture>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Capture {
    Name,
    Symbol(Role, String),
    Other,
}

/// What the query says about one place.
struct Tag<'t> {
    pattern: usize,
    role: Role,
    kind: &'t str,
    /// The whole definition or use.
    node: Node<'t>,
}

impl Parser {
    /// A parser that looks for this name.
    pub fn new(name: Name) -> Self {
        Self { name, loaded: HashMap::new() }
    }

    /// Parses a file until `deadline`.
    ///
    /// # Errors
    /// [`Stopped`]
    pub fn parse(
        &mut self,
        (path, language): (&str, Language),
        source: &str,
        room: Room,
        deadline: Instant,
    ) -> Result<Found, Stopped> {
        let name = self.name.last.as_str();
        let places: Vec<usize> = words(source.as_bytes(), name).collect();
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Ok(Found::default());
        };
        let loaded = match self.loaded.entry(language) {
            Entry::Occupied(loaded) => loaded.into_mut(),
            Entry::Vacant(free) => free.insert(Loaded::load(language)?),
        };
        let tree = loaded.tree(source, deadline)?;
        let tags = loaded.tags(&tree, source, *first..*last + name.len(), deadline)?;
        let mut search = Search {
            path,
            source,
            name: &self.name,
            root: tree.root_node(),
            room,
            columns: Columns::default(),
            found: Found::default(),
        };
        for (index, start) in places.iter().enumerate() {
            if index % BETWEEN_LOOKS == 0 && Instant::now() >= deadline {
                return Err(Stopped::TooSlow);
            }
            search.place(*start, tags.get(start));
        }
        Ok(search.found)
    }
}

impl Loaded {
    fn load(language: Language) -> Result<Self, Stopped> {
        let grammar = language.grammar();
        let mut parser = tree_sitter::Parser::new();
        parser.set_language(&grammar).map_err(|_| Stopped::Grammar)?;
        let query = Query::new(&grammar, &language.query()).map_err(|_| Stopped::Grammar)?;
        let captures = query.capture_names().iter().map(|name| Capture::of(name)).collect();
        Ok(Self { parser, query, captures })
    }

    fn tree(&mut self, source: &str, deadline: Instant) -> Result<Tree, Stopped> {
        let bytes = source.as_bytes();
        let mut go_on = |_: &tree_sitter::ParseState| before(deadline);
        let options = ParseOptions::new().progress_callback(&mut go_on);
        let mut read = |from: usize, _| bytes.get(from..).unwrap_or_default();
        let tree = self.parser.parse_with_options(&mut read, None, Some(options));
        // The next file must not continue with the state of an unfinished one.
        self.parser.reset();
        tree.ok_or(Stopped::TooSlow)
    }

    /// What the query says about places of the name, by their first byte.
    fn tags<'t>(
        &'t self,
        tree: &'t Tree,
        source: &str,
        range: std::ops::Range<usize>,
        deadline: Instant,
    ) -> Result<HashMap<usize, Tag<'t>>, Stopped> {
        let mut tags: HashMap<usize, Tag<'t>> = HashMap::new();
        let mut go_on = |_: &tree_sitter::QueryCursorState| before(deadline);
        let options = QueryCursorOptions::new().progress_callback(&mut go_on);
        let mut cursor = QueryCursor::new();
        cursor.set_byte_range(range);
        let root = tree.root_node();
        let mut matches =
            cursor.matches_with_options(&self.query, root, source.as_bytes(), options);
        while let Some(found) = matches.next() {
            let meaning =
                |index: u32| usize::try_from(index).ok().and_then(|i| self.captures.get(i));
            let mut name = None;
            let mut symbol = None;
            for capture in found.captures {
                match meaning(capture.index) {
                    Some(Capture::Name) => name = Some(capture.node.start_byte()),
                    Some(Capture::Symbol(role, kind)) => {
                        symbol = Some((*role, kind.as_str(), capture.node));
                    }
                    Some(Capture::Other) | None => {}
                }
            }
            let (Some(start), Some((role, kind, node))) = (name, symbol) else { continue };
            let tag = Tag { pattern: found.pattern_index, role, kind, node };
            // A definition is none of its own uses, and the first pattern is the most exact one.
            let known = tags.get(&start).map(|known| (known.role, known.pattern));
            if known.is_none_or(|known| (tag.role, tag.pattern) < known) {
                tags.insert(start, tag);
            }
        }
        drop(matches);
        // The library does not say whether the callback ended it.
        if before(deadline).is_break() { Err(Stopped::TooSlow) } else { Ok(tags) }
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("captures", &self.captures).finish_non_exhaustive()
    }
}

impl Capture {
    fn of(name: &str) -> Self {
        match name.split_once('.') {
            None if name == "name" => Self::Name,
            Some(("definition", kind)) => Self::Symbol(Role::Definition, kind.to_owned()),
            Some(("reference", kind)) => Self::Symbol(Role::Use, kind.to_owned()),
            Some(_) | None => Self::Other,
        }
    }
}

fn before(deadline: Instant) -> ControlFlow<()> {
    if Instant::now() < deadline { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// The places of one file.
struct Search<'s> {
    path: &'s str,
    source: &'s str,
    name: &'s Name,
    root: Node<'s>,
    room: Room,
    columns: Columns,
    found: Found,
}

impl Search<'_> {
    /// Takes up one place, unless it is in a comment, in a text or in another word.
    fn place(&mut self, start: usize, tag: Option<&Tag<'_>>) {
        let end = start + self.name.last.len();
        let node = self.root.descendant_for_byte_range(start, end);
        let Some(node) = node.filter(|node| is_identifier(*node, start, end)) else { return };
        let (role, kind) = tag.map_or((Role::Use, "name"), |tag| (tag.role, tag.kind));
        let container = match (role, tag) {
            (Role::Definition, Some(tag)) => container_of(self.root, tag.node, self.source),
            (Role::Definition | Role::Use, _) => None,
        };
        let wanted = self.name.container.as_deref();
        if role == Role::Definition && wanted.is_some() && wanted != container {
            return;
        }
        let (count, room) = match role {
            Role::Definition => (&mut self.found.definitions, &mut self.room.definitions),
            Role::Use => (&mut self.found.uses, &mut self.room.uses),
        };
        *count += 1;
        if *room == 0 {
            return;
        }
        *room -= 1;
        let row = node.start_position().row;
        self.found.symbols.push(Symbol {
            path: self.path.to_owned(),
            line: row as u64 + 1,
            column: self.columns.of(self.source, row, start, node.start_position().column),
            role,
            kind: kind.to_owned(),
            container: container.map(str::to_owned),
            text: text::around(self.source, start, end),
        });
    }
}

/// Whether a node is exactly this word as a name: what stands in a comment or a text is a part of a larger node.
fn is_identifier(node: Node<'_>, start: usize, end: usize) -> bool {
    let kind = node.kind();
    node.start_byte() == start
        && node.end_byte() == end
        && (kind.contains("identifier") || kind == "label_name" || kind == "metavariable")
}
