//! The overlay of a hidden check: files that only the check's view has.
//!
//! ```text
//!   request: path -> content --Overlay::of--> digest and content --store--> artifact
//!                                                   \--> plan: the digest alone
//! ```

use crate::domain::fields::{join, mismatch};
use crate::domain::json::{Value, sha256_hex};
use crate::domain::problem::Problem;
use data_encoding::HEXLOWER_PERMISSIVE;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most files of one overlay.
pub const MAX_OVERLAY_FILES: usize = 64;
/// All files of one overlay, in bytes.
pub const MAX_OVERLAY_BYTES: usize = 1 << 20;
/// What the stored form begins with.
const FORM: &[u8] = b"surety-overlay-1\n";
/// The key of a file that is no text.
const HEX: &str = "hex";

/// The files by their paths from the workspace's root.
pub type OverlayFiles = BTreeMap<String, Vec<u8>>;

/// What an overlay is without its content: plans are stored, shown and compared in this form.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    digest: String,
    files: Option<Arc<OverlayFiles>>,
}

/// The digest covers every path and every content.
impl PartialEq for Overlay {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Overlay {}

impl Overlay {
    /// An overlay with its content; none for no files.
    pub fn of(files: OverlayFiles) -> Self {
        if files.is_empty() {
            return Self::default();
        }
        Self { digest: sha256_hex(&encode_overlay(&files)), files: Some(Arc::new(files)) }
    }

    /// An overlay whose content is stored under this digest; none for an empty one.
    pub const fn stored(digest: String) -> Self {
        Self { digest, files: None }
    }

    /// Whether the check has no overlay.
    pub const fn is_none(&self) -> bool {
        self.digest.is_empty()
    }

    /// The SHA-256 of the stored form, in hexadecimal; empty for none.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The content, where it came with the request.
    pub const fn files(&self) -> Option<&Arc<OverlayFiles>> {
        self.files.as_ref()
    }
}

/// The stored form: for each file the lengths of its path and its content, then both.
pub fn encode_overlay(files: &OverlayFiles) -> Vec<u8> {
    let mut out = FORM.to_vec();
    for (path, content) in files {
        for part in [path.as_bytes(), content] {
            out.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        }
        out.extend(path.as_bytes());
        out.extend(content);
    }
    out
}

/// Reads the stored form; none when it is damaged.
pub fn decode_overlay(bytes: &[u8]) -> Option<OverlayFiles> {
    let mut rest = bytes.strip_prefix(FORM)?;
    let mut files = OverlayFiles::new();
    while !rest.is_empty() {
        let (path, after) = rest.split_first_chunk()?;
        let (content, after) = after.split_first_chunk()?;
        let length = |bytes: &[u8; 8]| usize::try_from(u64::from_be_bytes(*bytes)).ok();
        let (path, after) = after.split_at_checked(length(path)?)?;
        let (content, after) = after.split_at_checked(length(content)?)?;
        files.insert(String::from_utf8(path.to_vec()).ok()?, content.to_vec());
        rest = after;
    }
    Some(files)
}

/// Reads an overlay as people write it: paths, each with a text or `{"hex": "00ff"}`.
pub(super) fn read_overlay(value: &Value, path: &str) -> Result<Overlay, Problem> {
    let members = value.as_object().ok_or_else(|| mismatch(path, "an object", value))?;
    let mut files = OverlayFiles::new();
    for (name, value) in members {
        let here = join(path, name);
        let hex = || value.as_object().and_then(<[_]>::first).filter(|(key, _)| key == HEX);
        let content = match (value.as_str(), hex()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some((_, digits))) => digits
                .as_str()
                .and_then(|digits| HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok())
                .ok_or_else(|| mismatch(&here, "pairs of hexadecimal digits", digits))?,
            (None, None) => return Err(mismatch(&here, "a text or {\"hex\": DIGITS}", value)),
        };
        files.insert(name.clone(), content);
    }
    Ok(Overlay::of(files))
}
