//! Where the rows are, and how they are read.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use surety_common::domain::json::{Value, parse};

/// Names a further folder of rows, beside the project's own.
pub const FOLDER_VARIABLE: &str = "SURETY_CONFORMANCE_DIR";

/// The project's own folder, and the one the environment names where it does.
pub fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let further = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
    std::iter::once(own).chain(further).collect()
}

/// The rows of one file in all folders, each with its file and line for a person. A folder need
/// not have the file, but one of them must.
///
/// # Errors
/// A file that cannot be read, a line that is no JSON object, no rows at all.
pub fn read(file: &str) -> anyhow::Result<Vec<(String, Value)>> {
    let mut rows = Vec::new();
    for path in folders().into_iter().map(|folder| folder.join(file)) {
        if !path.exists() {
            continue;
        }
        let place = path.display().to_string();
        let text = std::fs::read_to_string(&path).context(place.clone())?;
        for (line, row) in (1..).zip(text.lines()) {
            if row.trim().is_empty() {
                continue;
            }
            let place = format!("{place}:{line}");
            rows.push((place.clone(), parse(row).context(place)?.value));
        }
    }
    if rows.is_empty() {
        bail!("no folder has rows in {file}");
    }
    Ok(rows)
}

/// Runs every row of a file and gathers what went otherwise than expected, a paragraph each.
///
/// # Errors
/// Those of [`read`].
pub fn failures(
    file: &str,
    run: impl Fn(&Value) -> Result<(), String>,
) -> anyhow::Result<Vec<String>> {
    let failed = |(place, row): (String, Value)| {
        let id = row.get("id").and_then(Value::as_str).unwrap_or("(no id)");
        let difference = run(&row).err()?;
        Some(format!("{id} ({place}): {difference}"))
    };
    Ok(read(file)?.into_iter().filter_map(failed).collect())
}
