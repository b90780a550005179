//! The digest of a whole workspace.

use super::{Content, Kind, Manifest};

/// Names the form below; another form needs another name.
const DOMAIN: &[u8] = b"surety workspace digest 1\n";

/// Hex BLAKE3 over every path that is not ignored: its name, kind, permissions and content. Equal
/// digests mean equal workspaces, whatever the times of their files.
pub fn digest(manifest: &Manifest) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(DOMAIN);
    for entry in manifest.entries().iter().filter(|entry| !entry.ignored) {
        let mode = if entry.kind == Kind::Link { 0 } else { entry.mode };
        let size = if entry.kind == Kind::File { entry.size } else { 0 };
        let (mark, content): (u8, &[u8]) = match &entry.content {
            Content::File(digest) => (b'f', &digest.blake3),
            Content::Target(target) => (b'l', target),
            Content::None => (b'-', &[]),
            Content::Unreadable => (b'?', &[]),
        };
        for part in [entry.path.as_ref(), content] {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hasher.update(&[mark, entry.kind as u8]);
        hasher.update(&mode.to_be_bytes());
        hasher.update(&size.to_be_bytes());
    }
    hasher.finalize().to_hex().to_string()
}
