//! `grep`: finds the lines that match a regular expression.

use crate::tool::builtin::glob::compile;
use crate::tool::builtin::support::{
    OUTPUT_LIMIT, blocking, count, folder_key, here, returning, scanning, spec, unread_note,
};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::scan::{self, Ignores};
use crate::tool::workspace::Kind;
use crate::tool::{Annotations, RelPath, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Bytes;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use serde::Deserialize;
use serde_json::json;
use std::path::Path;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::Fact;

/// The longest line in bytes; a file with a longer one counts as unreadable.
const LINE_LIMIT: usize = 16 << 20;

/// The most files for which one search records content facts, so that a common word does not fill a
/// receipt; the output lists all files.
const FACTS_LIMIT: usize = 100;

/// Searches files.
#[derive(Debug)]
pub struct Grep(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    glob: Option<String>,
    #[serde(default)]
    case_insensitive: bool,
}

impl Grep {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        Self(returning(
            "src/a.rs:12:let x = 1;",
            scanning(spec(
                "grep",
                "Searches text files of the workspace for a regular expression, line by line. Returns \
             `path:line:text`, sorted by path. In a folder it skips files that .gitignore names, \
             folders of build outputs and dependencies, and binary files.",
                Annotations::READS,
                json!({
                    "type": "object",
                    "properties": {
                        "pattern": {"type": "string", "minLength": 1, "description": "A regular expression (Rust syntax) that matches within one line."},
                        "path": {"type": "string", "minLength": 1, "description": "A file or a folder; the root by default."},
                        "glob": {"type": "string", "minLength": 1, "description": "Only files whose path below `path` matches, or whose name does when the glob has no slash."},
                        "case_insensitive": {"type": "boolean"}
                    },
                    "required": ["pattern"],
                    "additionalProperties": false
                }),
            )),
        ))
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        blocking(ctx, args, work)
    }

    fn scanned_folder(&self, args: &Value) -> Option<String> {
        Some(folder_key(args.get("path")))
    }
}

fn work(ctx: &ToolContext, args: &Args) -> Result<ToolOutcome, ToolError> {
    let start = ctx.workspace()?.locate(&args.path)?;
    let filter = args.glob.as_deref().map(Filter::new).transpose()?;
    let mut search = Search::new(ctx, args)?;
    let unread = match ctx.workspace()?.open_file(&start) {
        Ok(_) => search.search_file(&start, true).map(|()| 0),
        Err(error) if error.code == ErrorCode::NotAFile => {
            scan::walk(ctx.workspace()?.as_ref(), &start, Ignores::Gitignore, &mut |file| {
                let path = file.path.as_path();
                let below = path.strip_prefix(start.as_path()).unwrap_or(path);
                let wanted = filter.as_ref().is_none_or(|filter| filter.wants(below));
                if file.kind == Kind::File && wanted {
                    search.search_file(file.path, false)?;
                }
                ctx.check()
            })
        }
        Err(error) => Err(error),
    }?;
    Ok(search.finish(unread))
}

struct Filter {
    glob: GlobMatcher,
    name_only: bool,
}

impl Filter {
    fn new(pattern: &str) -> Result<Self, ToolError> {
        Ok(Self { glob: compile(pattern)?, name_only: !pattern.contains('/') })
    }

    fn wants(&self, path: &Path) -> bool {
        let part = match path.file_name() {
            Some(name) if self.name_only => Path::new(name),
            Some(_) | None => path,
        };
        self.glob.is_match(part)
    }
}

struct Search<'a> {
    ctx: &'a ToolContext,
    matcher: RegexMatcher,
    searcher: Searcher,
    /// The text that every match contains; none for a pattern that matches several texts.
    literal: Option<&'a str>,
    output: Vec<u8>,
    facts: Vec<Fact>,
    matches: u64,
    files: u64,
    unread: u64,
}

impl<'a> Search<'a> {
    fn new(ctx: &'a ToolContext, args: &'a Args) -> Result<Self, ToolError> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(args.case_insensitive)
            .line_terminator(Some(b'\n'))
            .build(&args.pattern)
            .map_err(|error| ToolError::new(ErrorCode::PatternInvalid, error.to_string()))?;
        // No detection of encodings: a match must consist of exactly these bytes.
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .bom_sniffing(false)
            .heap_limit(Some(LINE_LIMIT))
            .build();
        let literal =
            (!args.case_insensitive && is_literal(&args.pattern)).then_some(args.pattern.as_str());
        Ok(Self {
            ctx,
            matcher,
            searcher,
            literal,
            output: Vec::new(),
            facts: Vec::new(),
            matches: 0,
            files: 0,
            unread: 0,
        })
    }

    fn search_file(&mut self, path: &RelPath, named: bool) -> Result<(), ToolError> {
        let name = path.text();
        let file = match self.ctx.workspace()?.open_file(path) {
            Ok(file) => file,
            Err(error) if named => return Err(error),
            // The file was removed or its permissions changed since the folder was listed.
            Err(error) => {
                tracing::debug!(path = name, %error, "grep: a file could not be opened");
                self.unread += 1;
                return Ok(());
            }
        };
        let before = self.matches;
        let (output, matches, ctx) = (&mut self.output, &mut self.matches, self.ctx);
        let mut stopped = Ok(());
        let sink = Bytes(|number, line| {
            *matches += 1;
            output.extend_from_slice(format!("{name}:{number}:").as_bytes());
            output.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            output.push(b'\n');
            stopped = within_limit(output).and_then(|()| ctx.check());
            Ok(stopped.is_ok())
        });
        let searched = self.searcher.search_file(&self.matcher, &file, sink);
        stopped?;
        if let Err(error) = searched {
            tracing::debug!(path = name, %error, "grep: a file could not be read to its end");
            self.unread += 1;
        }
        if self.matches > before {
            self.files += 1;
            let stated = self.literal.filter(|_| self.facts.len() < FACTS_LIMIT);
            self.facts.extend(stated.map(|literal| Fact::Content {
                path: name,
                contains: literal.to_owned(),
                found: true,
            }));
        }
        Ok(())
    }

    fn finish(self, unread: u64) -> ToolOutcome {
        let next = match self.matches {
            0 => "; try a shorter pattern, case_insensitive, or another path",
            _ => "",
        };
        let summary = format!(
            "{} in {}{}{next}",
            count(self.matches, "match"),
            count(self.files, "file"),
            unread_note(self.unread + unread)
        );
        ToolOutcome::done(summary, self.output, self.facts)
    }
}

fn within_limit(output: &[u8]) -> Result<(), ToolError> {
    if output.len() <= OUTPUT_LIMIT {
        return Ok(());
    }
    let message = format!("the matches exceed {OUTPUT_LIMIT} bytes; narrow the search");
    Err(ToolError::new(ErrorCode::TooLarge, message))
}

fn is_literal(pattern: &str) -> bool {
    !pattern.contains(|c: char| c.is_ascii_punctuation() && !"_-/:;,\"'`<>=@!%&~#".contains(c))
}
