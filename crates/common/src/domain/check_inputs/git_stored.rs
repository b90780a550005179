//! The stored form of what a repository was.

use super::git::GitState;

impl GitState {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for part in [&self.folder, &self.packed, &self.head] {
            put(&mut out, part);
        }
        put(&mut out, &self.files.len().to_be_bytes());
        for (path, digest) in &self.files {
            put(&mut out, path);
            put(&mut out, digest);
        }
        put(&mut out, &self.references.len().to_be_bytes());
        for (name, object) in &self.references {
            put(&mut out, name);
            put(&mut out, object);
        }
        for (folder, state) in &self.nested {
            put(&mut out, folder);
            put(&mut out, &state.encode());
        }
        out
    }

    /// Reads the stored form; none when it is damaged.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let (folder, packed, head) = (take(bytes)?, take(bytes)?, take(bytes)?);
        let count = usize::from_be_bytes(take(bytes)?.try_into().ok()?);
        let mut state = Self { folder, packed, head, ..Self::default() };
        for _ in 0..count {
            let path = take(bytes)?;
            state.files.insert(path, take(bytes)?.try_into().ok()?);
        }
        let count = usize::from_be_bytes(take(bytes)?.try_into().ok()?);
        for _ in 0..count {
            let name = take(bytes)?;
            state.references.insert(name, take(bytes)?);
        }
        while !bytes.is_empty() {
            let folder = take(bytes)?;
            state.nested.insert(folder, Self::decode(&take(bytes)?)?);
        }
        Some(state)
    }
}

fn put(out: &mut Vec<u8>, part: &[u8]) {
    out.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
    out.extend(part);
}

fn take(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
    let (part, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(part.to_vec())
}
