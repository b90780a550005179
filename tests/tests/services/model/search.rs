//! A search for a text in everything that a deployment keeps: rows of every type, bytes and files.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use sqlx::{AssertSqlSafe, PgPool};
use std::fmt::Write;
use std::path::Path;

/// The forms of one text: as it is, in hexadecimal, and in base64 at each place of a group of three bytes.
pub(super) struct Forms(Vec<String>);

impl Forms {
    pub(super) fn of(text: &str) -> Self {
        let mut hex = String::new();
        for byte in text.bytes() {
            // Writing to a String cannot fail.
            write!(hex, "{byte:02x}").unwrap_or_default();
        }
        let mut forms = vec![text.to_owned(), hex.to_uppercase(), hex];
        for before in 0..3 {
            let bytes = [&b"\0\0"[..before], text.as_bytes()].concat();
            for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                let whole = engine.encode(&bytes);
                // The first and the last letter may hold bits of the bytes beside the text.
                let last = whole.len() - usize::from(bytes.len() % 3 != 0);
                forms.push(whole[(before * 8).div_ceil(6)..last].to_owned());
            }
        }
        Self(forms)
    }

    /// Whether bytes hold one of the forms.
    pub(super) fn are_in(&self, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        self.0.iter().any(|form| text.contains(form))
    }
}

/// A place in the database or in a folder, and its content.
pub(super) type Kept = (String, Vec<u8>);

/// Every row of every table as text, and every value of a column of bytes as it is.
pub(super) async fn rows(pool: &PgPool) -> Result<Vec<Kept>> {
    let tables = "select tablename::text from pg_tables where schemaname = 'public'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(pool).await?;
    let mut all = Vec::new();
    for name in tables {
        let query = AssertSqlSafe(format!("select row_to_json(t)::text from \"{name}\" t"));
        let found: Vec<String> = sqlx::query_scalar(query).fetch_all(pool).await?;
        all.extend(found.into_iter().map(|row| (name.clone(), row.into_bytes())));
    }
    let columns = "select table_name::text, column_name::text from information_schema.columns \
                   where table_schema = 'public' and data_type = 'bytea'";
    let columns: Vec<(String, String)> = sqlx::query_as(columns).fetch_all(pool).await?;
    for (table, column) in columns {
        let query = format!("select \"{column}\" from \"{table}\" where \"{column}\" is not null");
        let found: Vec<Vec<u8>> = sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(pool).await?;
        all.extend(found.into_iter().map(|bytes| (format!("{table}.{column}"), bytes)));
    }
    Ok(all)
}

/// Every file below a folder.
pub(super) fn files(folder: &Path) -> Result<Vec<Kept>> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
                all.push((path.display().to_string(), bytes));
            }
        }
    }
    Ok(all)
}

#[test]
fn a_text_is_found_in_each_form_at_each_place() {
    let needle = Forms::of("sk-C4nary~?9zQ7");
    for before in ["", "a", "ab", "abc"] {
        let whole = format!("{before}sk-C4nary~?9zQ7 and more");
        let hex: String = whole.bytes().map(|byte| format!("{byte:02X}")).collect();
        let forms =
            [&whole, &hex, &STANDARD_NO_PAD.encode(&whole), &URL_SAFE_NO_PAD.encode(&whole)];
        for form in forms {
            assert!(needle.are_in(&[b"\xff\xfe", form.as_bytes()].concat()), "{form}");
        }
        assert!(!needle.are_in(STANDARD_NO_PAD.encode(&whole[..whole.len() - 12]).as_bytes()));
    }
}
