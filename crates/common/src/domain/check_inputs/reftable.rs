//! References in git's `reftable` form: tables that lie on each other, of which a later one wins.
//!
//! ```text
//!   table  = header, blocks of references, other blocks, footer
//!   record = length shared with the name before, rest of the name, value
//! ```
//!
//! The form is that of git's own `Documentation/technical/reftable`. Logs and indexes are not read.

use data_encoding::HEXLOWER;
use std::collections::BTreeMap;

const MAGIC: &[u8] = b"REFT";
/// The lengths of the header in versions 1 and 2.
const HEADERS: [usize; 2] = [24, 28];
/// A block's type and its length stand in front of it.
const BLOCK_HEAD: usize = 4;
/// The types of a value.
const DELETED: usize = 0;
const OBJECT: usize = 1;
const PEELED: usize = 2;
const SYMBOLIC: usize = 3;
/// The name of the table that a view adds.
const RESTORED: &str = "restored";

/// What is known of the tables of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tables {
    /// The file with the names of all tables.
    pub list: Vec<u8>,
    /// The highest update that a table holds.
    pub last_update: u64,
    /// Whether objects are named by SHA-256.
    pub is_sha256: bool,
    /// The names of tables that do not read.
    pub unread: Vec<Vec<u8>>,
}

impl Tables {
    /// Adds the references of the next table; none when it does not read. An object is its name in hexadecimal,
    /// with that of the object that a tag names behind it; a symbolic reference is `ref: NAME`.
    #[must_use]
    pub fn read(
        &mut self,
        table: &[u8],
        references: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Option<()> {
        let version = usize::from(*table.get(4)?);
        let header = *HEADERS.get(version.checked_sub(1)?)?;
        if !table.starts_with(MAGIC) {
            return None;
        }
        let block_size = number(table.get(5..8)?);
        self.last_update =
            self.last_update.max(u64::from_be_bytes(table.get(16..24)?.try_into().ok()?));
        self.is_sha256 |= version == 2 && table.get(24..28)? == b"s256";
        let hash = if self.is_sha256 { 32 } else { 20 };
        let (mut at, mut first) = (0, header);
        while table.get(at + first) == Some(&b'r') {
            let length = number(table.get(at + first + 1..at + first + BLOCK_HEAD)?);
            let block = table.get(at..at + length)?;
            let restarts = length.checked_sub(2)?;
            let count = number(block.get(restarts..)?);
            let records = block.get(first + BLOCK_HEAD..restarts.checked_sub(3 * count)?)?;
            read_records(records, hash, references)?;
            // Blocks are filled up with zeros, the last one perhaps not.
            let is_filled = block_size > length && table.get(at + length) == Some(&0);
            at += if is_filled { block_size } else { length };
            first = 0;
        }
        Some(())
    }

    /// A table that sets references back, and the list with it: their paths below git's folder, and contents. A
    /// reference without a value is taken out.
    pub fn restoring(&self, back: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> [(Vec<u8>, Vec<u8>); 2] {
        let update = self.last_update.saturating_add(1);
        let name = format!("0x{update:012x}-0x{update:012x}-{RESTORED}.ref");
        let list = [self.list.trim_ascii_end(), b"\n", name.as_bytes(), b"\n"].concat();
        let path = |name: &str| [b"reftable/", name.as_bytes()].concat();
        [(path("tables.list"), list), (path(&name), self.table(update, back))]
    }

    fn table(&self, update: u64, back: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Vec<u8> {
        let version: u8 = if self.is_sha256 { 2 } else { 1 };
        // Blocks without a size of their own are not filled up.
        let mut table = [MAGIC, &[version, 0, 0, 0]].concat();
        table.extend(update.to_be_bytes());
        table.extend(update.to_be_bytes());
        if self.is_sha256 {
            table.extend(b"s256");
        }
        let header = table.clone();
        let first = header.len() + BLOCK_HEAD;
        let mut records = Vec::new();
        for (name, value) in back {
            put_record(&mut records, name, value.as_deref());
        }
        let length = first + records.len() + 3 + 2;
        table.push(b'r');
        table.extend(three(length));
        table.extend(records);
        table.extend(three(first));
        table.extend(1_u16.to_be_bytes());
        let mut footer = header;
        // No index, no objects, no log.
        footer.extend([0; 5 * 8]);
        footer.extend(crc32(&footer).to_be_bytes());
        table.extend(footer);
        table
    }
}

fn read_records(
    mut records: &[u8],
    hash: usize,
    references: &mut BTreeMap<Vec<u8>, Vec<u8>>,
) -> Option<()> {
    let mut name: Vec<u8> = Vec::new();
    while !records.is_empty() {
        let shared = varint(&mut records)?;
        let rest = varint(&mut records)?;
        let (length, kind) = (rest >> 3, rest & 7);
        let suffix = take(&mut records, length)?;
        name = [name.get(..shared)?, suffix].concat();
        varint(&mut records)?;
        let value = match kind {
            DELETED => None,
            OBJECT => Some(HEXLOWER.encode(take(&mut records, hash)?)),
            PEELED => {
                let [object, peeled] = [take(&mut records, hash)?, take(&mut records, hash)?];
                Some(format!("{} {}", HEXLOWER.encode(object), HEXLOWER.encode(peeled)))
            }
            SYMBOLIC => {
                let length = varint(&mut records)?;
                let target = take(&mut records, length)?;
                Some(format!("ref: {}", String::from_utf8_lossy(target)))
            }
            _ => return None,
        };
        match value {
            Some(value) => drop(references.insert(name.clone(), value.into_bytes())),
            None => drop(references.remove(&name)),
        }
    }
    Some(())
}

fn put_record(out: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) {
    let objects: Vec<Vec<u8>> = value
        .unwrap_or_default()
        .split(|byte| *byte == b' ')
        .filter_map(|digits| HEXLOWER.decode(digits).ok())
        .filter(|object| !object.is_empty())
        .collect();
    let target = value.and_then(|value| value.strip_prefix(b"ref: "));
    let kind = match (target, objects.len()) {
        (Some(_), _) => SYMBOLIC,
        (None, 0) => DELETED,
        (None, 1) => OBJECT,
        (None, _) => PEELED,
    };
    put_varint(out, 0);
    put_varint(out, name.len() << 3 | kind);
    out.extend(name);
    put_varint(out, 0);
    match target {
        Some(target) => {
            put_varint(out, target.len());
            out.extend(target);
        }
        None => out.extend(objects.into_iter().take(2).flatten()),
    }
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// A number of up to four bytes, the highest first.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().take(4).fold(0, |value, byte| value << 8 | usize::from(*byte))
}

fn three(value: usize) -> [u8; 3] {
    let [.., high, middle, low] = value.to_be_bytes();
    [high, middle, low]
}

/// A number in the form of git's packs, where each byte but the last adds one.
fn varint(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    for place in 0..8 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if place > 0 {
            value = value.checked_add(1)?;
        }
        value = value.checked_shl(7)? | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    let low = |value: usize| u8::try_from(value & 0x7f).unwrap_or_default();
    let mut bytes = vec![low(value)];
    while value >> 7 > 0 {
        value = (value >> 7) - 1;
        bytes.push(low(value) | 0x80);
    }
    out.extend(bytes.into_iter().rev());
}

/// The check sum of zlib and PNG, over a few bytes.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            let carry = if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
            sum >> 1 ^ carry
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_sets_references_back_is_read_as_git_reads_it() {
        for is_sha256 in [false, true] {
            let object = "ab".repeat(if is_sha256 { 32 } else { 20 });
            let peeled = format!("{object} {object}");
            let long = format!("refs/heads/{}", "x".repeat(300));
            let tables = Tables {
                list: b"0x1-0x1-a.ref\n".to_vec(),
                last_update: 9,
                is_sha256,
                unread: Vec::new(),
            };
            let bytes = |text: &str| text.as_bytes().to_vec();
            let back = BTreeMap::from([
                (bytes("HEAD"), Some(bytes("ref: refs/heads/main"))),
                (bytes(&long), Some(bytes(&object))),
                (bytes("refs/replace/1"), None),
                (bytes("refs/tags/v1"), Some(bytes(&peeled))),
            ]);
            let [(list, names), (path, table)] = tables.restoring(&back);
            assert_eq!(list, b"reftable/tables.list");
            assert!(path.ends_with(b"-restored.ref"));
            assert!(names.starts_with(b"0x1-0x1-a.ref\n0x00000000000a-"), "{names:?}");
            let mut read = Tables::default();
            let mut references = BTreeMap::from([
                (bytes("refs/replace/1"), bytes("1")),
                (bytes("refs/x"), bytes("2")),
            ]);
            read.read(&table, &mut references).unwrap();
            assert_eq!((read.last_update, read.is_sha256), (10, is_sha256));
            let kept = back.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let expected: BTreeMap<_, _> = kept.chain([(bytes("refs/x"), bytes("2"))]).collect();
            assert_eq!(references, expected);
            for end in 0..table.len() - 1 {
                let cut = table.get(..end).unwrap();
                // Whatever is cut off, nothing panics.
                let _read = Tables::default().read(cut, &mut BTreeMap::new());
            }
        }
    }

    #[test]
    fn the_check_sum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
