//! The files that are parsed: those of parsed languages in which the name stands as a word.

use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::scan::{self, Ignores};
use crate::tool::workspace::Kind;
use crate::tool::{RelPath, ToolContext, Workspace};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Bytes;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use std::fs::File;
use std::sync::Arc;
use surety_symbols::{FILE_LIMIT, Language, Reason, contains_word};

/// The longest line in bytes, as for `grep`.
const LINE_LIMIT: usize = 16 << 20;

/// The other files with the word that a result names.
const EXAMPLES: usize = 3;

/// What a scan found.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Files to parse, sorted by path.
    pub(super) files: Vec<String>,
    /// Files of parsed languages that cannot be.
    pub(super) not_parsed: Vec<(String, Reason)>,
    /// Files of other languages with the word.
    pub(super) others: u64,
    /// Some of them.
    pub(super) examples: Vec<String>,
    /// Files and folders that could not be read.
    pub(super) unread: u64,
}

/// Scans a file or a folder; it blocks.
///
/// # Errors
/// As for `grep`.
pub(super) fn find(ctx: &ToolContext, word: &str, path: &str) -> Result<Candidates, ToolError> {
    let workspace = ctx.workspace()?;
    let start = workspace.locate(path)?;
    let mut search = Search::new(ctx, Arc::clone(&workspace), word)?;
    match workspace.open_file(&start) {
        Ok(file) => search.search(&start, &file),
        Err(error) if error.code == ErrorCode::NotAFile => {
            let unread = scan::walk(&workspace, &start, Ignores::Gitignore, &mut |found| {
                search.visit(found.path, found.kind);
                ctx.check()
            })?;
            search.found.unread += unread;
        }
        Err(error) => return Err(error),
    }
    ctx.check()?;
    Ok(search.found)
}

struct Search<'w> {
    ctx: &'w ToolContext,
    workspace: Arc<Workspace>,
    word: &'w str,
    matcher: RegexMatcher,
    /// For files of parsed languages: the parser says which of them are binary.
    sources: Searcher,
    /// For other files, of which binary ones are skipped as `grep` does.
    texts: Searcher,
    found: Candidates,
}

impl<'w> Search<'w> {
    fn new(
        ctx: &'w ToolContext,
        workspace: Arc<Workspace>,
        word: &'w str,
    ) -> Result<Self, ToolError> {
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(true)
            .line_terminator(Some(b'\n'))
            .build(word)
            .map_err(|error| ToolError::new(ErrorCode::ArgumentsInvalid, error.to_string()))?;
        let searcher = |binary| {
            SearcherBuilder::new()
                .binary_detection(binary)
                .bom_sniffing(false)
                .heap_limit(Some(LINE_LIMIT))
                .build()
        };
        Ok(Self {
            ctx,
            workspace,
            word,
            matcher,
            sources: searcher(BinaryDetection::none()),
            texts: searcher(BinaryDetection::quit(0)),
            found: Candidates::default(),
        })
    }

    fn visit(&mut self, path: &RelPath, kind: Kind) {
        let is_source = Language::of(path.as_path()).is_some();
        match kind {
            Kind::File => match self.workspace.open_file(path) {
                Ok(file) => self.search(path, &file),
                // It was removed or its permissions changed since the folder was listed.
                Err(error) => {
                    tracing::debug!(path = path.text(), %error, "find_symbol: a file could not be opened");
                    self.found.unread += 1;
                }
            },
            // What a link inside the workspace leads to is scanned under its own path.
            Kind::Link if is_source => {
                let leads = self.workspace.kind(path).map_err(|error| error.code);
                if leads == Err(ErrorCode::PathOutsideWorkspace) {
                    self.leave_out(path, Reason::OutsideWorkspace);
                }
            }
            Kind::Other if is_source => self.leave_out(path, Reason::NotAFile),
            Kind::Folder | Kind::Link | Kind::Other => {}
        }
    }

    fn search(&mut self, path: &RelPath, file: &File) {
        let language = Language::of(path.as_path());
        let searcher = if language.is_some() { &mut self.sources } else { &mut self.texts };
        let (word, ctx) = (self.word, self.ctx);
        let mut found = false;
        let sink = Bytes(|_, line| {
            found = contains_word(line, word);
            Ok(!found && ctx.check().is_ok())
        });
        if let Err(error) = searcher.search_file(&self.matcher, file, sink) {
            tracing::debug!(path = path.text(), %error, "find_symbol: a file could not be searched");
            let is_large = file.metadata().is_ok_and(|found| found.len() > FILE_LIMIT);
            match language {
                Some(_) if is_large => self.leave_out(path, Reason::TooLarge),
                Some(_) => self.leave_out(path, Reason::Unreadable),
                None => self.found.unread += 1,
            }
            return;
        }
        match (found, language, path.as_path().to_str()) {
            (false, _, _) => {}
            (true, Some(_), Some(path)) => self.found.files.push(path.to_owned()),
            (true, Some(_), None) => self.leave_out(path, Reason::NotUtf8),
            (true, None, _) => {
                self.found.others += 1;
                if self.found.examples.len() < EXAMPLES {
                    self.found.examples.push(path.text());
                }
            }
        }
    }

    fn leave_out(&mut self, path: &RelPath, reason: Reason) {
        self.found.not_parsed.push((path.text(), reason));
    }
}
