//! Receipts and their facts.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use super::value::{list, moment, timestamp, wire_list};
use crate::domain::receipt::{
    CheckProbe, Command, Conditions, EvidenceReceipt, EvidenceSource, Fact, Inputs,
    PresentedReceipt, probe_of,
};
use crate::domain::signature::{KeyId, ReceiptProof, SignatureStatus};
use crate::domain::tests_seen::Counts;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use data_encoding::HEXLOWER;
use v1::fact as wire;

impl From<SignatureStatus> for v1::SignatureReport {
    fn from(status: SignatureStatus) -> Self {
        let (state, detail) = match status {
            SignatureStatus::Signed => (v1::SignatureState::Signed, String::new()),
            SignatureStatus::Unsigned(why) => (v1::SignatureState::Unsigned, why),
            SignatureStatus::Broken(place) => (v1::SignatureState::Broken, place),
        };
        Self { state: state.into(), detail }
    }
}

/// The length of an Ed25519 signature.
const SIGNATURE_BYTES: usize = 64;

impl TryFrom<v1::EvidenceReceipt> for EvidenceReceipt {
    type Error = MessageError;

    /// Texts are trimmed, those inside facts are kept. Errors are reported in the order index,
    /// source, facts, times.
    fn try_from(receipt: v1::EvidenceReceipt) -> Result<Self, Self::Error> {
        let mut receipt = read_sealed(receipt)?;
        let texts = [
            &mut receipt.step_id,
            &mut receipt.call_id,
            &mut receipt.name,
            &mut receipt.arguments_digest,
            &mut receipt.summary,
            &mut receipt.output_digest,
            &mut receipt.sandbox,
            &mut receipt.prev_digest,
            &mut receipt.digest,
        ];
        for text in texts {
            *text = trimmed(text);
        }
        Ok(receipt)
    }
}

/// Reads a receipt exactly, so that its digest stays the same.
///
/// # Errors
/// In the order index, source, facts, times.
pub fn read_sealed(receipt: v1::EvidenceReceipt) -> Result<EvidenceReceipt, MessageError> {
    let v1::EvidenceReceipt {
        step_index,
        step_id,
        plan_revision,
        seq,
        call_id,
        source,
        name,
        arguments_digest,
        success,
        summary,
        facts,
        output_digest,
        started_at,
        finished_at,
        prev_digest,
        digest,
        sandbox,
        // The signature is checked where receipts are verified; it is not part of the facts.
        key_id: _,
        signature: _,
        proof: _,
        check_id,
        round,
        inputs,
    } = receipt;
    Ok(EvidenceReceipt {
        step_index: read_step_index(step_index)?,
        step_id,
        plan_revision,
        seq,
        call_id,
        probe_of: probe_of(check_id, round, read_inputs(inputs)?),
        source: read_source(source)?,
        name,
        arguments_digest,
        success,
        summary,
        facts: list("facts", facts)?,
        output_digest,
        started_at: started_at.map(|at| moment("started_at", at)).transpose()?,
        finished_at: finished_at.map(|at| moment("finished_at", at)).transpose()?,
        prev_digest,
        digest,
        sandbox,
    })
}

impl From<EvidenceReceipt> for v1::EvidenceReceipt {
    /// A receipt without its signature; the caller that has it sets key, signature and proof.
    fn from(receipt: EvidenceReceipt) -> Self {
        let EvidenceReceipt {
            step_index,
            step_id,
            plan_revision,
            seq,
            call_id,
            probe_of,
            source,
            name,
            arguments_digest,
            success,
            summary,
            facts,
            output_digest,
            started_at,
            finished_at,
            prev_digest,
            digest,
            sandbox,
        } = receipt;
        let CheckProbe { check_id, round, inputs } = probe_of.unwrap_or_default();
        Self {
            step_index: Some(step_index.into()),
            step_id,
            plan_revision,
            seq,
            call_id,
            check_id,
            round,
            inputs: v1::ProbeInputs::from(inputs).into(),
            source: v1::EvidenceSource::from(source).into(),
            name,
            arguments_digest,
            success,
            summary,
            facts: wire_list(facts),
            output_digest,
            started_at: started_at.map(timestamp),
            finished_at: finished_at.map(timestamp),
            prev_digest,
            digest,
            sandbox,
            key_id: String::new(),
            signature: Vec::new(),
            proof: None,
        }
    }
}

impl TryFrom<v1::EvidenceReceipt> for PresentedReceipt {
    type Error = MessageError;

    fn try_from(receipt: v1::EvidenceReceipt) -> Result<Self, Self::Error> {
        let (key_id, signature) = (trimmed(&receipt.key_id), signature_text(&receipt.signature));
        Ok(Self { receipt: receipt.try_into()?, key_id, signature })
    }
}

impl From<PresentedReceipt> for v1::EvidenceReceipt {
    fn from(presented: PresentedReceipt) -> Self {
        let PresentedReceipt { receipt, key_id, signature } = presented;
        Self { key_id, signature: signature_bytes(&signature), ..receipt.into() }
    }
}

impl v1::EvidenceReceipt {
    /// The same receipt with what signs it.
    #[must_use]
    pub fn signed_by(self, proof: &ReceiptProof) -> Self {
        let ReceiptProof { key_id, signed_at, signature, root, leaf_index, leaf_count, path } =
            proof;
        let proof = v1::InclusionProof {
            root: HEXLOWER.encode(root),
            leaf_index: *leaf_index,
            leaf_count: *leaf_count,
            path: path.iter().map(|digest| HEXLOWER.encode(digest)).collect(),
            signed_at: Some(timestamp(*signed_at)),
        };
        Self {
            key_id: key_id.to_string(),
            signature: signature.to_vec(),
            proof: Some(proof),
            ..self
        }
    }
}

/// What signs a receipt; none for a receipt without a signature.
///
/// # Errors
/// A part of it is missing, or is none; in words.
pub fn read_receipt_proof(receipt: &v1::EvidenceReceipt) -> Result<Option<ReceiptProof>, String> {
    let v1::EvidenceReceipt { key_id, signature, proof, .. } = receipt;
    let proof = match proof {
        None if signature.is_empty() => return Ok(None),
        None => return Err("it has a signature and no inclusion proof".to_owned()),
        Some(proof) => proof,
    };
    let v1::InclusionProof { root, leaf_index, leaf_count, path, signed_at } = proof;
    let digest = |text: &String| HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok();
    let signed_at = signed_at.map(|at| moment("proof.signed_at", at)).transpose();
    let signed_at = signed_at.map_err(|error| error.to_string())?;
    Ok(Some(ReceiptProof {
        key_id: KeyId::from_text(key_id).ok_or("its `key_id` is no 32 hex digits")?,
        signed_at: signed_at.ok_or("its proof has no `signed_at`")?,
        signature: signature.as_slice().try_into().map_err(|_| "its signature has not 64 bytes")?,
        root: digest(root).ok_or("the root of its proof is no SHA-256")?,
        leaf_index: *leaf_index,
        leaf_count: *leaf_count,
        path: path
            .iter()
            .map(digest)
            .collect::<Option<_>>()
            .ok_or("the path of its proof has another text than SHA-256")?,
    }))
}

/// The bytes of a signature in base64. Text that is none is kept as it is, because it is presented and not checked.
fn signature_bytes(text: &str) -> Vec<u8> {
    match BASE64_STANDARD.decode(text) {
        Ok(bytes) if bytes.len() == SIGNATURE_BYTES => bytes,
        Ok(_) | Err(_) => text.as_bytes().to_vec(),
    }
}

fn signature_text(bytes: &[u8]) -> String {
    match bytes.len() {
        SIGNATURE_BYTES => BASE64_STANDARD.encode(bytes),
        _ => String::from_utf8_lossy(bytes).trim().to_owned(),
    }
}

impl TryFrom<v1::Fact> for Fact {
    type Error = MessageError;

    fn try_from(fact: v1::Fact) -> Result<Self, Self::Error> {
        let v1::Fact { fact } = fact;
        match fact.ok_or_else(|| MessageError::at("fact", Kind::Missing))? {
            wire::Fact::FileWritten(wire::FileWritten { path, before_digest, after_digest }) => {
                Ok(Self::FileWritten { path, before_digest, after_digest })
            }
            wire::Fact::FileObserved(wire::FileObserved { path, exists }) => {
                Ok(Self::FileObserved { path, exists })
            }
            wire::Fact::Command(wire::Command {
                command,
                exit_code,
                cwd,
                environment,
                workspace_before,
                workspace_after,
            }) => {
                let conditions = cwd.map(|cwd| Conditions {
                    cwd,
                    environment,
                    workspace_before,
                    workspace_after,
                });
                Ok(Self::Command { command: read_command(command)?, exit_code, conditions })
            }
            wire::Fact::Content(wire::Content { path, contains, found }) => {
                Ok(Self::Content { path, contains, found })
            }
            wire::Fact::Verification(wire::Verification { tool, scope, passed }) => {
                Ok(Self::Verification { tool, scope, passed })
            }
            wire::Fact::Output(wire::Output { key, value }) => Ok(Self::Output { key, value }),
            wire::Fact::Tests(wire::Tests { runner, ran, failed, skipped, missing }) => {
                Ok(Self::Tests { runner, counts: Counts { ran, failed, skipped, missing } })
            }
        }
    }
}

impl From<Fact> for v1::Fact {
    fn from(fact: Fact) -> Self {
        let fact = match fact {
            Fact::FileWritten { path, before_digest, after_digest } => {
                wire::Fact::FileWritten(wire::FileWritten { path, before_digest, after_digest })
            }
            Fact::FileObserved { path, exists } => {
                wire::Fact::FileObserved(wire::FileObserved { path, exists })
            }
            Fact::Command { command, exit_code, conditions } => {
                let command = Some(write_command(command));
                let cwd = conditions.as_ref().map(|conditions| conditions.cwd.clone());
                let Conditions { cwd: _, environment, workspace_before, workspace_after } =
                    conditions.unwrap_or_default();
                wire::Fact::Command(wire::Command {
                    command,
                    exit_code,
                    cwd,
                    environment,
                    workspace_before,
                    workspace_after,
                })
            }
            Fact::Content { path, contains, found } => {
                wire::Fact::Content(wire::Content { path, contains, found })
            }
            Fact::Verification { tool, scope, passed } => {
                wire::Fact::Verification(wire::Verification { tool, scope, passed })
            }
            Fact::Output { key, value } => wire::Fact::Output(wire::Output { key, value }),
            Fact::Tests { runner, counts } => {
                let Counts { ran, failed, skipped, missing } = counts;
                wire::Fact::Tests(wire::Tests { runner, ran, failed, skipped, missing })
            }
        };
        Self { fact: Some(fact) }
    }
}

fn read_command(command: Option<wire::command::Command>) -> Result<Command, MessageError> {
    match command.ok_or_else(|| MessageError::at("command.command", Kind::Missing))? {
        wire::command::Command::Argv(wire::Argv { args }) => Ok(Command::Argv(args)),
        wire::command::Command::CommandLine(line) => Ok(Command::Line(line)),
    }
}

fn write_command(command: Command) -> wire::command::Command {
    match command {
        Command::Argv(args) => wire::command::Command::Argv(wire::Argv { args }),
        Command::Line(line) => wire::command::Command::CommandLine(line),
    }
}

fn read_step_index(index: Option<i64>) -> Result<u32, MessageError> {
    let at = |kind| MessageError::at("step_index", kind);
    let index = index.ok_or_else(|| at(Kind::StepIndexMissing))?;
    if index < 0 {
        return Err(at(Kind::StepIndexNegative(index)));
    }
    u32::try_from(index).map_err(|_| at(Kind::StepIndexTooLarge(index)))
}

fn read_source(number: i32) -> Result<EvidenceSource, MessageError> {
    use v1::EvidenceSource as Wire;
    match Wire::try_from(number) {
        Ok(Wire::ToolObservation) => Ok(EvidenceSource::ToolObservation),
        Ok(Wire::WriteReceipt) => Ok(EvidenceSource::WriteReceipt),
        Ok(Wire::UserReply) => Ok(EvidenceSource::UserReply),
        Ok(Wire::Probe) => Ok(EvidenceSource::Probe),
        Ok(Wire::Approval) => Ok(EvidenceSource::Approval),
        Ok(Wire::ActionReport) => Ok(EvidenceSource::ActionReport),
        Ok(Wire::Unspecified) | Err(_) => {
            Err(MessageError::at("source", Kind::EvidenceSourceUnknown(number)))
        }
    }
}

fn read_inputs(number: i32) -> Result<Inputs, MessageError> {
    use v1::ProbeInputs as Wire;
    match Wire::try_from(number) {
        Ok(Wire::Unspecified) => Ok(Inputs::Unstated),
        Ok(Wire::Original) => Ok(Inputs::Original),
        Ok(Wire::OriginalWithIgnored) => Ok(Inputs::OriginalWithIgnored),
        Ok(Wire::AsLeft) => Ok(Inputs::AsLeft),
        Ok(Wire::Canary) => Ok(Inputs::Canary),
        Ok(Wire::CanaryAtStart) => Ok(Inputs::CanaryAtStart),
        Ok(Wire::TestsAtStart) => Ok(Inputs::TestsAtStart),
        Ok(Wire::AtStart) => Ok(Inputs::AtStart),
        Err(_) => Err(MessageError::at("inputs", Kind::UnknownEnumValue(number))),
    }
}

impl From<Inputs> for v1::ProbeInputs {
    fn from(inputs: Inputs) -> Self {
        match inputs {
            Inputs::Unstated => Self::Unspecified,
            Inputs::Original => Self::Original,
            Inputs::OriginalWithIgnored => Self::OriginalWithIgnored,
            Inputs::AsLeft => Self::AsLeft,
            Inputs::Canary => Self::Canary,
            Inputs::CanaryAtStart => Self::CanaryAtStart,
            Inputs::TestsAtStart => Self::TestsAtStart,
            Inputs::AtStart => Self::AtStart,
        }
    }
}

impl From<EvidenceSource> for v1::EvidenceSource {
    fn from(source: EvidenceSource) -> Self {
        match source {
            EvidenceSource::ToolObservation => Self::ToolObservation,
            EvidenceSource::WriteReceipt => Self::WriteReceipt,
            EvidenceSource::UserReply => Self::UserReply,
            EvidenceSource::Probe => Self::Probe,
            EvidenceSource::Approval => Self::Approval,
            EvidenceSource::ActionReport => Self::ActionReport,
        }
    }
}

fn trimmed(text: &str) -> String {
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::problem::{Code, Problem};

    #[test]
    fn a_bad_receipt_is_refused_with_the_first_thing_wrong() {
        let source = v1::EvidenceSource::Probe.into();
        for (step_index, source, code) in [
            (None, 0, Code::StepIndexMissing),
            (Some(-1), 0, Code::StepIndexNegative),
            (Some(i64::MAX), source, Code::TypeMismatch),
            (Some(0), 0, Code::EvidenceSourceUnknown),
            (Some(0), 99, Code::EvidenceSourceUnknown),
        ] {
            let receipt =
                v1::EvidenceReceipt { step_index, source, ..v1::EvidenceReceipt::default() };
            let problem = Problem::from(EvidenceReceipt::try_from(receipt).unwrap_err());
            assert_eq!(problem.code, code);
        }
    }

    #[test]
    fn a_presented_signature_comes_back_as_it_was_given() {
        let real = BASE64_STANDARD.encode([7_u8; SIGNATURE_BYTES]);
        for (signature, length) in [(real.as_str(), SIGNATURE_BYTES), ("c2ln", 4), ("", 0)] {
            let text = format!(
                r#"{{"step_index": 0, "source": "probe", "key_id": "k", "signature": "{signature}"}}"#
            );
            let value = crate::domain::json::parse(&text).unwrap().value;
            let presented = crate::domain::receipt::read_presented(&value).unwrap();
            let sent = v1::EvidenceReceipt::from(presented.clone());
            assert_eq!(sent.signature.len(), length);
            assert_eq!(PresentedReceipt::try_from(sent).unwrap(), presented);
        }
    }

    #[test]
    fn an_empty_fact_is_named_by_its_place() {
        let receipt = v1::EvidenceReceipt {
            step_index: Some(0),
            source: v1::EvidenceSource::Probe.into(),
            facts: vec![v1::Fact::default()],
            ..v1::EvidenceReceipt::default()
        };
        let problem = Problem::from(EvidenceReceipt::try_from(receipt).unwrap_err());
        assert_eq!(problem.code, Code::FieldMissing);
        assert_eq!(problem.field.as_deref(), Some("facts[0].fact"));
    }
}
