//! The stored form of a manifest: numbers as LEB128, each path by what it does not share with the
//! one before it. Times are kept of what has no digest only: the others are compared by content.

use super::{Content, Entry, FileDigest, IgnoreRules, Kind, Manifest, Place, RuleSource, Stamp};
use std::sync::Arc;

/// Names the form; another form needs another name.
const MAGIC: &[u8] = b"surety manifest 1\n";

/// Bits of an entry's first byte: the kind, what is known of the content, and whether it is ignored.
const KIND: u8 = 0b0000_0111;
const CONTENT: u8 = 0b0001_1000;
const FILE: u8 = 0b0000_0000;
const TARGET: u8 = 0b0000_1000;
const NONE: u8 = 0b0001_0000;
const UNREADABLE: u8 = 0b0001_1000;
const IGNORED: u8 = 0b0010_0000;
const STEADY: u8 = 0b0100_0000;

/// Why stored bytes are no manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They begin with something else, such as another version's form.
    #[error("the bytes are no manifest of this version")]
    Form,
    /// They end in the middle.
    #[error("the manifest is cut off")]
    CutOff,
    /// A number, a text or a path is none.
    #[error("the manifest holds a value that no manifest has")]
    Value,
}

/// The stored form.
pub fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + manifest.entries.len() * 48);
    out.extend_from_slice(MAGIC);
    let Place { boot, mount, device, inode } = &manifest.place;
    put_bytes(&mut out, boot.as_bytes());
    [*mount, *device, *inode].into_iter().for_each(|number| put(&mut out, number));
    let IgnoreRules { prefix, sources, defaults, tracked, counted } = manifest.rules.as_ref();
    put_bytes(&mut out, prefix);
    put(&mut out, sources.len() as u64);
    for source in sources {
        put_bytes(&mut out, &source.base);
        put_bytes(&mut out, source.text.as_bytes());
    }
    put(&mut out, u64::from(*defaults));
    put(&mut out, tracked.len() as u64);
    put_paths(&mut out, tracked.iter().map(Vec::as_slice));
    put(&mut out, counted.len() as u64);
    counted.iter().for_each(|glob| put_bytes(&mut out, glob.as_bytes()));
    put(&mut out, manifest.entries.len() as u64);
    put_paths(&mut out, manifest.entries.iter().map(|entry| entry.path.as_ref()));
    manifest.entries.iter().for_each(|entry| put_entry(&mut out, entry));
    out
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    let known = match &entry.content {
        Content::File(_) => FILE,
        Content::Target(_) => TARGET,
        Content::None => NONE,
        Content::Unreadable => UNREADABLE,
    };
    let ignored = if entry.ignored { IGNORED } else { 0 };
    let steady = if entry.stamp.steady { STEADY } else { 0 };
    out.push(entry.kind as u8 | known | ignored | steady);
    put(out, u64::from(entry.mode));
    put(out, entry.size);
    match &entry.content {
        Content::File(digest) => out.extend_from_slice(&digest.blake3),
        Content::Target(target) => put_bytes(out, target),
        Content::None | Content::Unreadable => {
            let Stamp { modified_ns, changed_ns, inode, steady: _ } = entry.stamp;
            put_signed(out, changed_ns);
            put_signed(out, changed_ns.wrapping_sub(modified_ns));
            put(out, inode);
        }
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

/// Small numbers of either sign are short.
fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_paths<'a>(out: &mut Vec<u8>, paths: impl Iterator<Item = &'a [u8]>) {
    let mut last: &[u8] = &[];
    for path in paths {
        let shared = last.iter().zip(path).take_while(|(one, other)| one == other).count();
        put(out, shared as u64);
        put_bytes(out, path.get(shared..).unwrap_or_default());
        last = path;
    }
}

/// Reads the stored form.
///
/// # Errors
/// [`DecodeError`]; nothing of a manifest that does not read to its end is used.
pub fn decode(bytes: &[u8]) -> Result<Manifest, DecodeError> {
    let mut rest = Rest(bytes.strip_prefix(MAGIC).ok_or(DecodeError::Form)?);
    let place = Place {
        boot: rest.text()?,
        mount: rest.number()?,
        device: rest.number()?,
        inode: rest.number()?,
    };
    let rules = rest.rules()?;
    let count = rest.count()?;
    let paths = rest.paths(count)?;
    let mut entries = Vec::with_capacity(paths.len());
    for path in paths {
        entries.push(rest.entry(path)?);
    }
    let sorted = entries.windows(2).all(|pair| match pair {
        [one, other] => one.path < other.path,
        _ => true,
    });
    if !rest.0.is_empty() || !sorted {
        return Err(DecodeError::Value);
    }
    Ok(Manifest { place, rules: Arc::new(rules), entries })
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(DecodeError::CutOff)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.take(1)?.first().copied().ok_or(DecodeError::CutOff)
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError::Value)
    }

    fn signed(&mut self) -> Result<i64, DecodeError> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    /// The number of things that follow, each of which takes a byte at least.
    fn count(&mut self) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.number()?).map_err(|_| DecodeError::Value)?;
        if count > self.0.len() { Err(DecodeError::CutOff) } else { Ok(count) }
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.count()?;
        self.take(count)
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Value)?;
        Ok(text.to_owned())
    }

    fn paths(&mut self, count: usize) -> Result<Vec<Vec<u8>>, DecodeError> {
        let mut paths: Vec<Vec<u8>> = Vec::with_capacity(count);
        for _ in 0..count {
            let shared = usize::try_from(self.number()?).map_err(|_| DecodeError::Value)?;
            let last = paths.last().map_or(&[][..], Vec::as_slice);
            let mut path = last.get(..shared).ok_or(DecodeError::Value)?.to_vec();
            path.extend_from_slice(self.bytes()?);
            paths.push(path);
        }
        Ok(paths)
    }

    fn rules(&mut self) -> Result<IgnoreRules, DecodeError> {
        let prefix = self.bytes()?.to_vec();
        let mut sources = Vec::new();
        for _ in 0..self.count()? {
            sources.push(RuleSource { base: self.bytes()?.to_vec(), text: self.text()? });
        }
        let defaults = self.number()? != 0;
        let count = self.count()?;
        let tracked = self.paths(count)?;
        let mut counted = Vec::new();
        for _ in 0..self.count()? {
            counted.push(self.text()?);
        }
        Ok(IgnoreRules { prefix, sources, defaults, tracked, counted })
    }

    fn entry(&mut self, path: Vec<u8>) -> Result<Entry, DecodeError> {
        let bits = self.byte()?;
        let kind = Kind::ALL.get(usize::from(bits & KIND)).copied().ok_or(DecodeError::Value)?;
        let mode = u32::try_from(self.number()?).map_err(|_| DecodeError::Value)?;
        let size = self.number()?;
        let mut stamp = Stamp { steady: bits & STEADY != 0, ..Stamp::default() };
        let content = match bits & CONTENT {
            FILE => {
                let digest = self.take(32)?.try_into().map_err(|_| DecodeError::CutOff)?;
                Content::File(FileDigest { blake3: digest, sha256: None })
            }
            TARGET => Content::Target(self.bytes()?.into()),
            known => {
                stamp.changed_ns = self.signed()?;
                stamp.modified_ns = stamp.changed_ns.wrapping_sub(self.signed()?);
                stamp.inode = self.number()?;
                if known == NONE { Content::None } else { Content::Unreadable }
            }
        };
        let ignored = bits & IGNORED != 0;
        Ok(Entry { path: path.into(), kind, mode, size, ignored, stamp, content })
    }
}
