//! `apply_patch`: changes several files by a unified diff, all or none.

use crate::tool::builtin::read_file::as_text;
use crate::tool::builtin::support::{blocking, count, read, spec};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::write::Change;
use crate::tool::{
    Annotations, Effect, FileWrite, RelPath, Tool, ToolContext, ToolOutcome, ToolSpec,
};
use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchSet};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use surety_common::domain::json::{Value, sha256_hex};
use surety_common::domain::receipt::Fact;

/// The largest file that is changed, in bytes, because its old and its new content are held in memory.
const FILE_LIMIT: u64 = 16 << 20;

/// The most files of one patch, because all of them are held in memory at once.
const FILES_LIMIT: usize = 200;

/// Applies a unified diff.
#[derive(Debug)]
pub struct ApplyPatch(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    patch: String,
}

/// The files after the patch, by their paths.
type Files = BTreeMap<String, Patched>;

struct Patched {
    path: RelPath,
    before: Option<String>,
    after: Option<String>,
    executable: bool,
}

impl ApplyPatch {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        let annotations = Annotations {
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: false,
        };
        Self(spec(
            "apply_patch",
            "Changes text files of the workspace by a unified diff, as `git diff` and `diff -u` write it: \
             modifies, creates (`--- /dev/null`), deletes (`+++ /dev/null`) and renames files. All files \
             are changed, or none when one part does not fit. Line numbers may be off; the lines \
             around a change must match exactly.",
            annotations,
            json!({
                "type": "object",
                "properties": {
                    "patch": {"type": "string", "minLength": 1, "description": "The diff. Paths are relative to the workspace's root, with or without `a/` and `b/` in front."}
                },
                "required": ["patch"],
                "additionalProperties": false
            }),
        ))
    }
}

impl Tool for ApplyPatch {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn intend(&self, ctx: &ToolContext, args: &Value) -> Result<Effect, ToolError> {
        let args: Args = read(args)?;
        let files = prepare(ctx, &args.patch)?;
        let workspace = ctx.workspace()?;
        let digest = |text: &Option<String>| text.as_ref().map(|text| sha256_hex(text.as_bytes()));
        let mut writes = Vec::new();
        for file in files.values() {
            workspace.place_to_write(&file.path, &ctx.write_scope)?;
            writes.push(FileWrite {
                path: file.path.text(),
                before_digest: digest(&file.before),
                after_digest: digest(&file.after),
            });
        }
        Ok(Effect::Writes { files: writes })
    }

    fn reports_writes(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        blocking(ctx, args, work)
    }
}

fn work(ctx: &ToolContext, args: &Args) -> Result<ToolOutcome, ToolError> {
    let files = prepare(ctx, &args.patch)?;
    let lines = files.values().map(said);
    let output = lines.collect::<String>().into_bytes();
    let changes = files.into_values().map(|file| Change {
        path: file.path,
        content: file.after.map(String::into_bytes),
        executable: file.executable,
    });
    let written = ctx.workspace()?.write_all(changes.collect(), &ctx.write_scope)?;
    let summary = format!("changed {}", count(written.len() as u64, "file"));
    let facts: Vec<Fact> = written.iter().flat_map(|file| file.facts()).collect();
    Ok(ToolOutcome::done(summary, output, facts))
}

fn said(file: &Patched) -> String {
    let verb = match (&file.before, &file.after) {
        (None, _) => "created",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
    };
    format!("{verb} {}\n", file.path.text())
}

/// The files after the patch. Nothing is changed.
fn prepare(ctx: &ToolContext, text: &str) -> Result<Files, ToolError> {
    let is_git = text.lines().any(|line| line.starts_with("diff --git "));
    let options = if is_git { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
    let mut files = Files::new();
    let mut parts = 0;
    for part in PatchSet::parse(text, options) {
        ctx.check()?;
        let part = part.map_err(|error| {
            invalid(format!("the patch cannot be read as a unified diff: {error}"))
        })?;
        add(ctx, &mut files, &part)?;
        parts += 1;
        if files.len() > FILES_LIMIT {
            let message =
                format!("the patch changes more than {FILES_LIMIT} files; send it in parts");
            return Err(ToolError::new(ErrorCode::TooLarge, message));
        }
    }
    files.retain(|_, file| file.before != file.after);
    if parts == 0 || files.is_empty() {
        let message =
            "the patch changes nothing; send a unified diff with `---`, `+++` and `@@` lines";
        return Err(invalid(message.to_owned()));
    }
    Ok(files)
}

fn add(ctx: &ToolContext, files: &mut Files, part: &FilePatch<'_, str>) -> Result<(), ToolError> {
    let operation = strip(part.operation());
    let (from, to) = match &operation {
        FileOperation::Delete(path) => (Some(path), None),
        FileOperation::Create(path) => (None, Some(path)),
        FileOperation::Modify { original, modified } => (Some(original), Some(modified)),
        FileOperation::Rename { from, to } | FileOperation::Copy { from, to } => {
            (Some(from), Some(to))
        }
    };
    let name = to.or(from).map_or("", |path| path.as_ref());
    let Some(patch) = part.patch().as_text() else {
        return Err(invalid(format!("{name} is binary; a patch changes text files only")));
    };
    check_mode(part, name)?;
    let old = match from {
        Some(path) => Some(current(ctx, files, path, &operation)?),
        None => None,
    };
    let new = diffy::apply(old.as_deref().unwrap_or_default(), patch).map_err(|error| {
        let message =
            format!("{name}: {error}; read the file and make the patch again from its text");
        ToolError::new(ErrorCode::PatchConflict, message)
    })?;
    match to {
        None if !new.is_empty() => {
            let message =
                format!("{name} has more lines than the patch removes; it was not deleted");
            return Err(ToolError::new(ErrorCode::PatchConflict, message));
        }
        None => {}
        Some(path) => {
            let keeps = matches!(&operation, FileOperation::Modify { original, modified } if original == modified);
            let file = entry(ctx, files, path)?;
            if !keeps && file.after.is_some() {
                let message = format!("{name} exists already; send a patch that modifies it");
                return Err(ToolError::new(ErrorCode::PatchConflict, message));
            }
            file.after = Some(new);
            file.executable = part.new_mode() == Some(&FileMode::Executable);
        }
    }
    let leaves = match (&operation, from) {
        (FileOperation::Delete(_) | FileOperation::Rename { .. }, from) => from,
        (FileOperation::Modify { original, modified }, from) if original != modified => from,
        (
            FileOperation::Modify { .. } | FileOperation::Create(_) | FileOperation::Copy { .. },
            _,
        ) => None,
    };
    if let Some(path) = leaves {
        entry(ctx, files, path)?.after = None;
    }
    Ok(())
}

/// The paths without `a/` and `b/`, where they have both.
fn strip<'a>(operation: &'a FileOperation<'_, str>) -> FileOperation<'a, str> {
    let prefixed = match operation {
        FileOperation::Delete(path) => path.starts_with("a/"),
        FileOperation::Create(path) => path.starts_with("b/"),
        FileOperation::Modify { original, modified } => {
            original.starts_with("a/") && modified.starts_with("b/")
        }
        // Extended headers of git name paths without a prefix.
        FileOperation::Rename { .. } | FileOperation::Copy { .. } => false,
    };
    operation.strip_prefix(usize::from(prefixed))
}

/// A file's text after the parts of the patch before this one.
fn current(
    ctx: &ToolContext,
    files: &mut Files,
    path: &str,
    operation: &FileOperation<'_, str>,
) -> Result<String, ToolError> {
    let goes = !matches!(operation, FileOperation::Modify { .. } | FileOperation::Copy { .. });
    let file = entry(ctx, files, path)?;
    if goes && ctx.workspace()?.is_link(&file.path)? {
        let message = format!("{path} is a link; a patch removes and renames regular files only");
        return Err(ToolError::new(ErrorCode::NotAFile, message));
    }
    file.after.clone().ok_or_else(|| {
        let message =
            format!("{path} does not exist; its path is relative to the workspace's root");
        ToolError::new(ErrorCode::FileNotFound, message)
    })
}

fn entry<'f>(
    ctx: &ToolContext,
    files: &'f mut Files,
    path: &str,
) -> Result<&'f mut Patched, ToolError> {
    let path = ctx.workspace()?.locate(path)?;
    let name = path.text();
    if !files.contains_key(&name) {
        let before = match ctx.workspace()?.read(&path, FILE_LIMIT) {
            Ok(content) => Some(as_text(&path, content)?),
            Err(error) if error.code == ErrorCode::FileNotFound => None,
            Err(error) => return Err(error),
        };
        let after = before.clone();
        files.insert(name.clone(), Patched { path, before, after, executable: false });
    }
    files.get_mut(&name).ok_or_else(|| invalid("a path was lost".to_owned()))
}

fn check_mode(part: &FilePatch<'_, str>, name: &str) -> Result<(), ToolError> {
    let plain = |mode: Option<&FileMode>| match mode {
        None | Some(FileMode::Regular | FileMode::Executable) => true,
        Some(FileMode::Symlink | FileMode::Gitlink) => false,
    };
    if !plain(part.old_mode()) || !plain(part.new_mode()) {
        return Err(invalid(format!(
            "{name} is a link or a submodule; a patch changes text files only"
        )));
    }
    let changes = part.old_mode().zip(part.new_mode()).is_some_and(|(old, new)| old != new);
    if changes {
        let message =
            format!("{name}: a patch cannot change the mode of a file; use run_command with chmod");
        return Err(invalid(message));
    }
    Ok(())
}

fn invalid(message: String) -> ToolError {
    ToolError::new(ErrorCode::PatchInvalid, message)
}
