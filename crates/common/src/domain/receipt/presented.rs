//! A receipt as another party presents it, with the signature that it names. Neither its digest nor its facts include
//! the signature.

use super::{EvidenceReceipt, read};
use crate::domain::json::Value;
use crate::domain::problem::Problem;

/// A receipt and the signature beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedReceipt {
    /// The receipt.
    pub receipt: EvidenceReceipt,
    /// The id of the key that signed it; empty for none.
    pub key_id: String,
    /// The signature in base64, as it was given; empty for none. Nothing here checks it.
    pub signature: String,
}

/// Reads and normalizes a receipt as [`read_receipt`](super::read_receipt) does, and the signature beside it.
///
/// # Errors
/// Those of [`read_receipt`](super::read_receipt), then `type_mismatch` at `key_id` or `signature`.
pub fn read_presented(value: &Value) -> Result<PresentedReceipt, Problem> {
    let receipt = read::read_receipt(value)?;
    let (key_id, signature) = read::read_signature(value)?;
    Ok(PresentedReceipt { receipt, key_id, signature })
}

impl PresentedReceipt {
    /// The canonical form of the receipt, with its signature.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let Self { receipt, key_id, signature } = self;
        receipt.write_with(&receipt.digest, (key_id, signature), &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::parse;
    use crate::domain::problem::Code;

    #[test]
    fn a_signature_is_kept_beside_the_receipt_and_changes_no_digest() {
        let unsigned = r#"{"source":"probe","step_index":1,"success":true}"#;
        let signed = r#"{"step_index": 1, "source": "probe", "success": true, "key_id": " k1\n", "signature": " c2ln "}"#;
        let of = |text: &str| read_presented(&parse(text).unwrap().value).unwrap();
        let (unsigned, signed) = (of(unsigned), of(signed));
        assert_eq!(unsigned.to_text(), r#"{"source":"probe","step_index":1,"success":true}"#);
        assert_eq!(
            signed.to_text(),
            r#"{"key_id":"k1","signature":"c2ln","source":"probe","step_index":1,"success":true}"#
        );
        assert_eq!(signed.receipt, unsigned.receipt);
        assert_eq!(signed.receipt.compute_digest(), unsigned.receipt.compute_digest());
    }

    #[test]
    fn a_signature_of_another_type_is_refused_after_the_receipt_itself() {
        for (text, code, field) in [
            (r#"{"step_index": 1, "source": "probe", "key_id": 7}"#, Code::TypeMismatch, "key_id"),
            (
                r#"{"step_index": 1, "source": "probe", "signature": []}"#,
                Code::TypeMismatch,
                "signature",
            ),
            (
                r#"{"step_index": 1, "source": "x", "signature": []}"#,
                Code::EvidenceSourceUnknown,
                "source",
            ),
        ] {
            let problem = read_presented(&parse(text).unwrap().value).unwrap_err();
            assert_eq!((problem.code, problem.field.as_deref()), (code, Some(field)), "{text}");
        }
    }
}
