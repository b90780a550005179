//! The overlays of hidden checks: `{file: PATH}` becomes the content of the file.

use data_encoding::HEXLOWER;
use std::path::Path;

use surety_common::domain::check::MAX_OVERLAY_BYTES;
use surety_common::domain::json::Value;

use crate::failure::{Code, Failure};

/// Reads a file that an overlay names.
pub(crate) type ReadFile<'r> = &'r dyn Fn(&Path) -> Result<Vec<u8>, Failure>;

/// A file next to the plan file, as it is now.
///
/// # Errors
/// It cannot be read, or is too large.
pub(crate) fn read_beside(folder: &Path, path: &Path) -> Result<Vec<u8>, Failure> {
    let path = folder.join(path);
    let bytes = std::fs::metadata(&path).map_err(Failure::file(&path))?.len();
    if bytes > u64::try_from(MAX_OVERLAY_BYTES).unwrap_or(u64::MAX) {
        let message = format!("{} has {bytes} bytes", path.display());
        let advice = format!("An overlay has at most {MAX_OVERLAY_BYTES} bytes.");
        return Err(Failure::new(Code::FileUnusable, message, advice));
    }
    std::fs::read(&path).map_err(Failure::file(&path))
}

/// Puts the content of the named files into the overlays of these checks.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn resolve(checks: &mut Value, read: ReadFile<'_>) -> Result<(), Failure> {
    let single = match checks {
        Value::Object(_) => std::slice::from_mut(checks),
        Value::Array(items) => items,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(()),
    };
    for check in single {
        let Value::Object(members) = check else { continue };
        let overlay = members.iter_mut().find(|(key, _)| key == "overlay");
        let Some((_, Value::Object(files))) = overlay else { continue };
        for (_, content) in files {
            let named = match content {
                Value::Object(members) => match members.as_slice() {
                    [(key, Value::String(path))] if key == "file" => path.clone(),
                    _ => continue,
                },
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_) => continue,
            };
            *content = match String::from_utf8(read(Path::new(&named))?) {
                Ok(text) => Value::String(text),
                Err(bytes) => {
                    let digits = HEXLOWER.encode(bytes.as_bytes());
                    Value::Object(vec![("hex".to_owned(), Value::String(digits))])
                }
            };
        }
    }
    Ok(())
}

/// As [`resolve`], for the checks of steps.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn resolve_in_steps(steps: &mut Value, read: ReadFile<'_>) -> Result<(), Failure> {
    let Value::Array(steps) = steps else { return Ok(()) };
    for step in steps {
        let Value::Object(members) = step else { continue };
        for (_, checks) in members.iter_mut().filter(|(key, _)| key == "verify") {
            resolve(checks, read)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::json::parse;

    #[test]
    fn a_file_beside_the_plan_becomes_its_content() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.py"), "x = 1\n").unwrap();
        std::fs::write(folder.path().join("b.bin"), [0, 255]).unwrap();
        let text = r#"[{"overlay": {"t/a.py": {"file": "a.py"}, "b": {"file": "b.bin"}, "c": "as it is"}}, "make"]"#;
        let mut checks = parse(text).unwrap().value;
        resolve(&mut checks, &|path| read_beside(folder.path(), path)).unwrap();
        let expected =
            r#"[{"overlay":{"t/a.py":"x = 1\n","b":{"hex":"00ff"},"c":"as it is"}},"make"]"#;
        assert_eq!(checks.to_compact(), expected);
        let mut missing = parse(r#"{"overlay": {"a": {"file": "none"}}}"#).unwrap().value;
        let refused = resolve(&mut missing, &|path| read_beside(folder.path(), path));
        assert!(refused.unwrap_err().to_text().contains("none"));
    }
}
