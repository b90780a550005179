//! Acceptance checks.
//!
//! Only the form is validated here; the check reader normalizes and validates the rest.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use crate::domain::check::{AcceptCheck, CheckKind, Match, Overlay, Owner};

impl TryFrom<v1::AcceptCheck> for AcceptCheck {
    type Error = MessageError;

    fn try_from(check: v1::AcceptCheck) -> Result<Self, Self::Error> {
        let v1::AcceptCheck {
            id,
            kind,
            target,
            r#match,
            required,
            params,
            owner,
            overlay,
            overlay_digest,
        } = check;
        let overlay =
            if overlay.is_empty() { Overlay::stored(overlay_digest) } else { Overlay::of(overlay) };
        Ok(Self {
            id,
            kind: CheckKind::from_text(&kind),
            target,
            r#match: read_match(r#match)?,
            required: required.unwrap_or(true),
            params,
            owner: read_owner(owner)?,
            overlay,
        })
    }
}

impl From<AcceptCheck> for v1::AcceptCheck {
    /// A check without the content of its overlay.
    fn from(check: AcceptCheck) -> Self {
        let AcceptCheck { id, kind, target, r#match, required, params, owner, overlay } = check;
        Self {
            id,
            kind: kind.as_str().to_owned(),
            target,
            r#match: v1::CheckMatch::from(r#match).into(),
            required: Some(required),
            params,
            owner: v1::CheckOwner::from(owner).into(),
            overlay: Default::default(),
            overlay_digest: overlay.digest().to_owned(),
        }
    }
}

fn read_match(number: i32) -> Result<Match, MessageError> {
    match v1::CheckMatch::try_from(number) {
        Ok(v1::CheckMatch::Unspecified | v1::CheckMatch::Prefix) => Ok(Match::Prefix),
        Ok(v1::CheckMatch::Exact) => Ok(Match::Exact),
        Ok(v1::CheckMatch::Contains) => Ok(Match::Contains),
        Err(_) => Err(MessageError::at("match", Kind::MatchUnknown(number))),
    }
}

fn read_owner(number: i32) -> Result<Owner, MessageError> {
    match v1::CheckOwner::try_from(number) {
        Ok(v1::CheckOwner::Unspecified | v1::CheckOwner::Plan) => Ok(Owner::Plan),
        Ok(v1::CheckOwner::User) => Ok(Owner::User),
        Ok(v1::CheckOwner::Operator) => Ok(Owner::Operator),
        Err(_) => Err(MessageError::at("owner", Kind::UnknownEnumValue(number))),
    }
}

impl From<Match> for v1::CheckMatch {
    fn from(value: Match) -> Self {
        match value {
            Match::Prefix => Self::Prefix,
            Match::Exact => Self::Exact,
            Match::Contains => Self::Contains,
        }
    }
}

impl From<Owner> for v1::CheckOwner {
    fn from(value: Owner) -> Self {
        match value {
            Owner::Plan => Self::Plan,
            Owner::User => Self::User,
            Owner::Operator => Self::Operator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_check_does_not_say_has_its_default() {
        let check = AcceptCheck::try_from(v1::AcceptCheck {
            kind: "output_only".into(),
            ..v1::AcceptCheck::default()
        })
        .unwrap();
        assert!(check.required);
        assert_eq!((check.r#match, check.owner), (Match::Prefix, Owner::Plan));
    }

    #[test]
    fn a_match_that_is_none_is_refused() {
        let check = v1::AcceptCheck { r#match: 9, ..v1::AcceptCheck::default() };
        let error = AcceptCheck::try_from(check).unwrap_err();
        assert_eq!(error, MessageError::at("match", Kind::MatchUnknown(9)));
    }
}
