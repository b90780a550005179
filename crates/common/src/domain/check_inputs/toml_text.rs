//! Writes a TOML table as a document: values first, then tables under their headers.

use std::fmt::Write;
use toml::{Table, Value};

/// The document of a table.
pub(super) fn document(table: &Table) -> String {
    let mut out = String::new();
    write_table(&mut out, "", table);
    out
}

fn write_table(out: &mut String, path: &str, table: &Table) {
    let is_plain = |value: &Value| !value.is_table() && tables(value).is_none();
    for (name, value) in table.iter().filter(|(_, value)| is_plain(value)) {
        line(out, &format!("{} = {}", key(name), inline(value)));
    }
    for (name, value) in table {
        let path = if path.is_empty() { key(name) } else { format!("{path}.{}", key(name)) };
        match (value, tables(value)) {
            (Value::Table(inside), _) => {
                line(out, &format!("\n[{path}]"));
                write_table(out, &path, inside);
            }
            (_, Some(list)) => {
                for inside in list {
                    line(out, &format!("\n[[{path}]]"));
                    write_table(out, &path, inside);
                }
            }
            (_, None) => {}
        }
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// The tables of a list that has nothing else.
fn tables(value: &Value) -> Option<Vec<&Table>> {
    let list = value.as_array().filter(|list| !list.is_empty())?;
    list.iter().map(Value::as_table).collect()
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(is) => is.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(list) => {
            format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Table(table) => {
            let member =
                |(name, value): (&String, &Value)| format!("{} = {}", key(name), inline(value));
            format!("{{ {} }}", table.iter().map(member).collect::<Vec<_>>().join(", "))
        }
    }
}

fn key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            letter if letter.is_control() => {
                // Writing to a String cannot fail, so there is no error to return.
                write!(out, "\\u{:04X}", u32::from(letter)).unwrap_or_default();
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_what_its_table_says() {
        let text = "a = 1\n\"b c\" = [1.5, inf, \"x\\n\\\"\\\\\\u0001\"]\nd = 2026-01-02T03:04:05Z\ne = []\n\
                    f = [{ a = 1 }, 2]\n[g]\n[g.h.\"i.j\"]\nk = { l = true }\n[[m]]\nn = 1\n[[m]]\n[m.o]\np = 'q'\n";
        let table: Table = text.parse().unwrap();
        let written = document(&table);
        assert_eq!(written.parse::<Table>().unwrap(), table, "{written}");
    }
}
