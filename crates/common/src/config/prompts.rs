//! Prompts: the built-in ones, and those of an operator's folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use crate::domain::json::sha256_hex;

/// The longest prompt of a folder, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A prompt that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltinPrompt {
    /// Its name with its version, such as `step/v1`: a folder has it as `step/v1.md`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Words that a text in its place must have: what the reader of replies depends on.
    pub words: &'static [&'static str],
}

/// A prompt as models get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its name with its version.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The SHA-256 of the text in hexadecimal.
    pub digest: String,
}

impl BuiltinPrompt {
    /// The text of the folder in its place, else its own.
    ///
    /// # Errors
    /// The folder's file cannot be read, is empty, too long or no text, or misses a word.
    pub fn load(&self, folder: Option<&Path>) -> Result<Prompt, ConfigError> {
        let own = folder.map(|folder| folder.join(format!("{}.md", self.name)));
        let text = match own.as_deref().map(|path| self.read(path)).transpose()?.flatten() {
            Some(text) => text,
            None => self.text.trim().to_owned(),
        };
        let digest = sha256_hex(text.as_bytes());
        Ok(Prompt { name: self.name.to_owned(), text, digest })
    }

    /// The text of a file; none where there is no file.
    fn read(&self, path: &Path) -> Result<Option<String>, ConfigError> {
        let refused = |why: String| ConfigError::Prompt { path: path.to_owned(), why };
        match fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(format!("cannot be read: {error}"))),
            Ok(found) if found.len() > MAX_BYTES => {
                return Err(refused(format!("is longer than {MAX_BYTES} bytes; shorten it")));
            }
            Ok(_) => {}
        }
        let text = fs::read_to_string(path)
            .map_err(|error| refused(format!("cannot be read as text: {error}")))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(refused("is empty; write the prompt into it, or remove it".to_owned()));
        }
        let missing: Vec<&str> =
            self.words.iter().copied().filter(|word| !text.contains(word)).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(refused(format!(
                "does not name {missing}, without which replies cannot be read; add what they mean"
            )));
        }
        Ok(Some(text.to_owned()))
    }
}

/// Checks that a folder of prompts holds no file that replaces none: a misspelled name would have no effect.
///
/// # Errors
/// The folder cannot be read, or has another file.
pub fn check_prompts(folder: &Path, known: &[&str]) -> Result<(), ConfigError> {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(place) = folders.pop() {
        let refused = |why: String| ConfigError::Prompt { path: place.clone(), why };
        let entries =
            fs::read_dir(&place).map_err(|error| refused(format!("cannot be read: {error}")))?;
        for entry in entries {
            let path = entry.map_err(|error| refused(format!("cannot be read: {error}")))?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).with_extension("");
            let is_prompt = path.extension().is_some_and(|extension| extension == "md");
            if is_prompt && !known.iter().any(|known| Path::new(known) == name) {
                let why = format!("replaces no prompt; the prompts are {}", known.join(", "));
                return Err(ConfigError::Prompt { path, why });
            }
        }
    }
    Ok(())
}

/// The names of all prompts of the services.
pub const PROMPTS: [&str; 3] = ["step/v1", "plan/v1", "replan/v1"];

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: BuiltinPrompt =
        BuiltinPrompt { name: "step/v1", text: "built in: tool_call\n", words: &["tool_call"] };

    #[test]
    fn a_folder_replaces_a_prompt_and_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let own = STEP.load(None).unwrap();
        assert_eq!(own.text, "built in: tool_call");
        assert_eq!(
            STEP.load(Some(folder.path())).unwrap(),
            own,
            "an empty folder replaces nothing"
        );
        fs::create_dir(folder.path().join("step")).unwrap();
        let file = folder.path().join("step/v1.md");
        fs::write(&file, "shorter, with tool_call").unwrap();
        let replaced = STEP.load(Some(folder.path())).unwrap();
        assert_eq!(replaced.text, "shorter, with tool_call");
        assert_ne!(replaced.digest, own.digest);
        check_prompts(folder.path(), &PROMPTS).unwrap();
    }

    #[test]
    fn a_prompt_without_which_replies_cannot_be_read_is_refused_and_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("step")).unwrap();
        let file = folder.path().join("step/v1.md");
        for (text, why) in
            [("", "is empty"), ("nothing", "tool_call"), (&"x".repeat(70_000), "longer")]
        {
            fs::write(&file, text).unwrap();
            let refused = STEP.load(Some(folder.path())).unwrap_err().to_string();
            assert!(refused.contains(why) && refused.contains("v1.md"), "{refused}");
        }
        fs::write(folder.path().join("step/v9.md"), "x").unwrap();
        let refused = check_prompts(folder.path(), &PROMPTS).unwrap_err().to_string();
        assert!(refused.contains("v9.md") && refused.contains("step/v1"), "{refused}");
    }
}
