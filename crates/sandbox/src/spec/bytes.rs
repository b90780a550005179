//! Paths in messages: they are bytes, and JSON has texts.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path as it is sent: a text where it is one.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Sent {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for Sent {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<Sent> for PathBuf {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Text(text) => Self::from(text),
            Sent::Bytes(bytes) => Self::from(OsString::from_vec(bytes)),
        }
    }
}

pub(super) mod path {
    use super::*;

    pub(in crate::spec) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        Sent::from(path).serialize(to)
    }

    pub(in crate::spec) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<PathBuf, D::Error> {
        Sent::deserialize(from).map(Into::into)
    }
}

pub(super) mod paths {
    use super::*;

    pub(in crate::spec) fn serialize<S: Serializer>(
        paths: &[PathBuf],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| Sent::from(path.as_path())))
    }

    pub(in crate::spec) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let sent = Vec::<Sent>::deserialize(from)?;
        Ok(sent.into_iter().map(Into::into).collect())
    }
}

pub(super) mod pairs {
    use super::*;

    pub(in crate::spec) fn serialize<S: Serializer>(
        pairs: &[(PathBuf, PathBuf)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(
            pairs.iter().map(|(a, b)| (Sent::from(a.as_path()), Sent::from(b.as_path()))),
        )
    }

    pub(in crate::spec) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(PathBuf, PathBuf)>, D::Error> {
        let sent = Vec::<(Sent, Sent)>::deserialize(from)?;
        Ok(sent.into_iter().map(|(a, b)| (a.into(), b.into())).collect())
    }
}

pub(super) mod timed {
    use super::*;

    pub(in crate::spec) fn serialize<S: Serializer>(
        timed: &[(PathBuf, i64)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(timed.iter().map(|(path, at)| (Sent::from(path.as_path()), at)))
    }

    pub(in crate::spec) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(PathBuf, i64)>, D::Error> {
        let sent = Vec::<(Sent, i64)>::deserialize(from)?;
        Ok(sent.into_iter().map(|(path, at)| (path.into(), at)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::View;
    use super::*;

    #[test]
    fn a_path_that_is_no_text_arrives_as_it_was_sent() {
        let odd = PathBuf::from(OsString::from_vec(b"caf\xe9.txt".to_vec()));
        let view = View {
            copy: None,
            upper: None,
            below: vec![PathBuf::from("/layer")],
            replace: vec![(odd.clone(), PathBuf::from("/original"))],
            remove: vec![odd.clone(), PathBuf::from("plain")],
            times: vec![(odd, -1), (PathBuf::from("plain"), i64::MAX)],
        };
        let sent = serde_json::to_vec(&view).unwrap();
        assert_eq!(serde_json::from_slice::<View>(&sent).unwrap(), view);
    }
}
