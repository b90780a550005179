//! Anchors: a time-stamp authority signs the root of a tree over the signatures of verdicts.
//!
//! ```text
//!   {"anchored":{"run_id":...,"signature":...}}   a leaf for each verdict since the last anchor: its first signature
//!   root of these leaves --RFC 3161--> token
//!
//!   in an export, behind a verdict:  {"anchor":{"first":...,"leaf_count":...,"nodes":[...],"token":...}}
//!   as a file of its own:            {"anchors":{"form":...,"token":...}} and the line of each leaf
//! ```

use super::envelope::{number, object, text};
use super::key::{SIGNATURE_BYTES, from_base64, to_base64};
use super::merkle::{Digest, MAX_LEAVES, RangeProof, Tree, leaf};
use crate::domain::json::{Value, parse_stored};
use crate::domain::timestamp::{Token, TsaCertificate};
use chrono::{DateTime, Utc};
use data_encoding::HEXLOWER;

/// Names the form of a file with an anchor; another form has another name.
const FORM: &str = "surety anchor 1";

/// What anchors one verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictAnchor {
    /// The place of the verdict's leaf in the tree, with one leaf.
    pub proof: RangeProof,
    /// The token over the root, in DER.
    pub token: Vec<u8>,
}

/// A verdict with an anchor, as a check found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchoredVerdict {
    /// The plan revision of the verdict.
    pub plan_revision: u32,
    /// The time in the token.
    pub at: DateTime<Utc>,
    /// Whether the token was checked against a certificate. The time of an unchecked one proves nothing.
    pub is_checked: bool,
}

/// The line of a leaf: a verdict's run, and its first signature.
pub fn anchored_line(run_id: &str, signature: &[u8]) -> String {
    let members = [("run_id", text(run_id)), ("signature", text(to_base64(signature)))];
    object([("anchored", object(members))]).to_canonical()
}

/// A tree over verdicts that are anchored together.
#[derive(Debug)]
pub struct AnchorTree {
    lines: Vec<String>,
    tree: Tree,
}

impl AnchorTree {
    /// Over the lines of leaves; none without any.
    pub fn over(lines: Vec<String>) -> Option<Self> {
        let leaves: Vec<Digest> = lines.iter().map(|line| leaf(line.as_bytes())).collect();
        Tree::over(&leaves).map(|tree| Self { lines, tree })
    }

    /// What the time stamp is about.
    pub const fn root(&self) -> Digest {
        self.tree.root()
    }

    /// The place of each leaf.
    pub fn proofs(&self) -> Vec<RangeProof> {
        let leaf_count = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        (0..leaf_count)
            .zip(0_usize..)
            .map(|(first, place)| RangeProof {
                leaf_count,
                first,
                nodes: self.tree.prove(place, place.saturating_add(1)),
            })
            .collect()
    }

    /// The anchor as a file, to be kept outside the database.
    pub fn to_file(&self, token: &[u8]) -> String {
        let head = object([("form", text(FORM)), ("token", text(to_base64(token)))]);
        let head = object([("anchors", head)]).to_canonical();
        let lines = std::iter::once(head.as_str()).chain(self.lines.iter().map(String::as_str));
        lines.flat_map(|line| [line, "\n"]).collect()
    }
}

impl VerdictAnchor {
    /// The line of an export.
    pub fn to_line(&self) -> String {
        let nodes = self.proof.nodes.iter().map(|node| text(HEXLOWER.encode(node)));
        let anchor = object([
            ("first", number(self.proof.first)),
            ("leaf_count", number(self.proof.leaf_count)),
            ("nodes", Value::Array(nodes.collect())),
            ("token", text(to_base64(&self.token))),
        ]);
        object([("anchor", anchor)]).to_canonical()
    }

    /// Reads the value of the key `anchor`.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let number = |key| value.get(key)?.as_number()?.parse().ok();
        let nodes = value.get("nodes")?.as_array()?.iter().map(super::columns::digest);
        let nodes = nodes.collect::<Option<_>>()?;
        let proof =
            RangeProof { leaf_count: number("leaf_count")?, first: number("first")?, nodes };
        Some(Self { proof, token: from_base64(value.get("token")?.as_str()?)? })
    }

    /// Checks that the token is about the verdict with this signature, and, with a certificate, who signed it. Returns
    /// the token's time.
    pub(super) fn check(
        &self,
        run_id: &str,
        signature: &[u8; SIGNATURE_BYTES],
        certificate: Option<&TsaCertificate>,
    ) -> Result<DateTime<Utc>, String> {
        let leaf = leaf(anchored_line(run_id, signature).as_bytes());
        let root = self.proof.root(&[leaf]).ok_or("its inclusion proof does not fit it")?;
        checked(&self.token, &root, certificate)
    }
}

fn checked(
    token: &[u8],
    root: &Digest,
    certificate: Option<&TsaCertificate>,
) -> Result<DateTime<Utc>, String> {
    let (bytes, token) = (token, Token::read(token).map_err(|error| error.to_string())?);
    if token.der() != bytes {
        return Err("its time stamp has parts that no signature covers".to_owned());
    }
    if token.imprint() != *root {
        return Err("its time stamp is about something else".to_owned());
    }
    if let Some(certificate) = certificate {
        token.check(certificate).map_err(|error| error.to_string())?;
    }
    Ok(token.at())
}

/// A file with an anchor, checked by itself.
#[derive(Debug)]
pub(super) struct AnchorFile {
    /// The token's time.
    pub(super) at: DateTime<Utc>,
    /// The run and the signature, in base64, of each leaf.
    pub(super) verdicts: Vec<(String, String)>,
}

impl AnchorFile {
    /// Whether a file is one with an anchor.
    pub(super) fn is_begun_by(first: &Value) -> bool {
        let form = first.get("anchors").and_then(|head| head.get("form")).and_then(Value::as_str);
        form == Some(FORM)
    }

    /// Reads a file, and checks its token.
    pub(super) fn read(file: &str, certificate: Option<&TsaCertificate>) -> Result<Self, String> {
        let mut lines = file.split_terminator('\n');
        let head = lines.next().and_then(|line| parse_stored(line).ok()).map(|parsed| parsed.value);
        let token = head.as_ref().and_then(|head| head.get("anchors")?.get("token")?.as_str());
        let token = token.and_then(from_base64).ok_or("its first line has no token in base64")?;
        let most = usize::try_from(MAX_LEAVES).unwrap_or(usize::MAX);
        let verdicts = (2..).zip(lines.take(most)).map(|(number, line)| {
            read_leaf(line).ok_or_else(|| format!("line {number}: it names no verdict"))
        });
        let verdicts: Vec<_> = verdicts.collect::<Result<_, _>>()?;
        let again = verdicts.iter().map(|(run_id, signature)| anchored_line(run_id, signature));
        let again = AnchorTree::over(again.collect()).ok_or("it names no verdict: it is cut")?;
        is_written_as(file, &again.to_file(&token))?;
        let at = checked(&token, &again.root(), certificate)?;
        let verdicts = verdicts.into_iter();
        Ok(Self { at, verdicts: verdicts.map(|(run, bytes)| (run, to_base64(&bytes))).collect() })
    }
}

/// The run and the signature of a leaf.
fn read_leaf(line: &str) -> Option<(String, Vec<u8>)> {
    let value = parse_stored(line).ok()?.value;
    let leaf = value.get("anchored")?;
    let member = |key| leaf.get(key).and_then(Value::as_str);
    Some((member("run_id")?.to_owned(), from_base64(member("signature")?)?))
}

/// A file has one form: what was read, written again, is the same bytes. Names the first line that is not.
fn is_written_as(file: &str, again: &str) -> Result<(), String> {
    if file == again {
        return Ok(());
    }
    let (lines, again) = (file.split_inclusive('\n'), again.split_inclusive('\n'));
    let same = lines.zip(again).take_while(|(line, again)| line == again).count();
    Err(format!("line {}: it is not in the canonical form", same.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leaf_is_proved_by_the_root_and_a_file_reads_as_it_was_written() {
        let lines: Vec<String> =
            (0..5_u8).map(|byte| anchored_line("run", &[byte; SIGNATURE_BYTES])).collect();
        let tree = AnchorTree::over(lines.clone()).unwrap();
        for (line, proof) in lines.iter().zip(tree.proofs()) {
            assert_eq!(proof.root(&[leaf(line.as_bytes())]), Some(tree.root()));
            let anchor = VerdictAnchor { proof, token: vec![1, 2] };
            let value = parse_stored(&anchor.to_line()).unwrap().value;
            assert_eq!(VerdictAnchor::read(value.get("anchor").unwrap()), Some(anchor));
        }
        let file = tree.to_file(b"no token");
        let found = AnchorFile::read(&file, None).unwrap_err();
        assert!(found.contains("time-stamp token does not read"), "{found}");
        for bad in [
            "",
            "{}",
            "{\"anchors\":{\"token\":\"AA==\"}}\n",
            "{\"anchors\":{\"token\":\"AA==\"}}\nx\n",
        ] {
            assert!(AnchorFile::read(bad, None).is_err(), "{bad}");
        }
        let line = |number: usize| file.split_inclusive('\n').nth(number - 1).unwrap();
        for (number, from, to) in [
            (1, "{\"anchors\":", "{\"anchors\": "),
            (1, "}}\n", "},\"more\":1}\n"),
            (1, "\n", "\r\n"),
            (2, "{\"anchored\":", "{ \"anchored\":"),
            (4, "}}\n", ",\"more\":1}}\n"),
            (6, "}}\n", "}}"),
        ] {
            let changed = file.replacen(line(number), &line(number).replace(from, to), 1);
            assert_ne!(changed, file);
            let found = AnchorFile::read(&changed, None).unwrap_err();
            let expected = format!("line {number}: it is not in the canonical form");
            assert_eq!(found, expected, "{changed}");
        }
    }
}
