//! Problems and warnings.

use super::v1;
use crate::domain::problem::{Code, Problem, Warning, WarningCode};

impl From<Problem> for v1::Problem {
    fn from(problem: Problem) -> Self {
        let Problem { code, field, message } = problem;
        Self { code: code.as_str().to_owned(), field, message }
    }
}

/// Why a problem or a warning from the wire is unknown to this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownCode {
    /// The code is unknown.
    #[error("this version does not know the code {0:?}")]
    Unknown(String),
}

impl TryFrom<v1::Problem> for Problem {
    type Error = UnknownCode;

    fn try_from(problem: v1::Problem) -> Result<Self, Self::Error> {
        let v1::Problem { code, field, message } = problem;
        match Code::from_text(&code) {
            Some(code) => Ok(Self { code, field, message }),
            None => Err(UnknownCode::Unknown(code)),
        }
    }
}

impl From<Warning> for v1::Warning {
    fn from(warning: Warning) -> Self {
        let message = warning.message().to_owned();
        let Warning { code, field, detail: _ } = warning;
        Self { code: code.as_str().to_owned(), field, message }
    }
}

impl TryFrom<v1::Warning> for Warning {
    type Error = UnknownCode;

    fn try_from(warning: v1::Warning) -> Result<Self, Self::Error> {
        let v1::Warning { code, field, message } = warning;
        match WarningCode::from_text(&code) {
            Some(code) => {
                let detail = (message != code.meaning()).then_some(message);
                Ok(Self { code, field, detail })
            }
            None => Err(UnknownCode::Unknown(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_and_warnings_come_back_as_they_went() {
        for code in Code::ALL {
            let problem = Problem::at(*code, "a.b", "why");
            assert_eq!(Problem::try_from(v1::Problem::from(problem.clone())), Ok(problem));
        }
        for code in WarningCode::ALL {
            let warning = Warning::at(*code, "a.b");
            assert_eq!(Warning::try_from(v1::Warning::from(warning.clone())), Ok(warning));
        }
    }
}
