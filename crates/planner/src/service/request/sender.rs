//! Who sends a plan or its checks, and what that makes of them.

use std::sync::Arc;
use surety_common::domain::check::{AcceptCheck, Author, Owner, validate_check};
use surety_common::domain::identity::Role;
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::problem::{Code, Problem};
use surety_common::wire::error::MessageError;
use surety_common::wire::v1;

/// Who sends a plan or its checks.
pub(in crate::service) struct Sender {
    /// The name of the identity.
    pub(in crate::service) name: String,
    /// Whose words its checks are.
    pub(in crate::service) author: Author,
    /// What the namespace asks of every run.
    pub(super) policy: Arc<NamespacePolicy>,
    /// Whether a model of the service can drive runs.
    pub(super) has_model: bool,
}

impl Sender {
    /// The sender of a call that a role allows. What a driver sends counts as a model's words.
    pub(in crate::service) fn new(name: &str, role: Role, policy: Arc<NamespacePolicy>) -> Self {
        let author = match role {
            Role::Operator => Author::Operator,
            Role::Submitter => Author::Submitter,
            Role::Driver | Role::Worker | Role::Viewer | Role::Approver | Role::Service => {
                Author::Model
            }
        };
        Self { name: name.to_owned(), author, policy, has_model: false }
    }

    /// The same sender, whose runs a model of the service can drive.
    pub(in crate::service) fn with_model(self, has_model: bool) -> Self {
        Self { has_model, ..self }
    }

    /// The owner of a check that names none.
    const fn owner(&self) -> v1::CheckOwner {
        match self.author {
            Author::Operator => v1::CheckOwner::Operator,
            Author::Submitter => v1::CheckOwner::User,
            Author::Model | Author::Service => v1::CheckOwner::Plan,
        }
    }

    /// The same plan, whose checks belong to the sender where they name no owner.
    pub(super) fn own(&self, mut plan: v1::Plan) -> v1::Plan {
        let steps = plan.steps.iter_mut().flat_map(|step| step.verify.iter_mut());
        steps.chain(plan.verify.iter_mut()).for_each(|check| self.own_check(check));
        plan
    }

    fn own_check(&self, check: &mut v1::AcceptCheck) {
        if check.owner == i32::from(v1::CheckOwner::Unspecified) {
            check.owner = self.owner().into();
        }
    }

    /// Refuses commands of the runner from a driver: what checks of others run is theirs to say.
    pub(super) fn check_commands(&self, policy: &v1::Policy) -> Result<(), Problem> {
        if matches!(self.author, Author::Submitter | Author::Operator) {
            return Ok(());
        }
        let refused = |field: &str, what: &str| {
            let message = format!("only a user or an operator {what}; leave it out");
            Err(Problem::at(Code::PolicyExceeded, field, message))
        };
        if !policy.prepare.is_empty() {
            return refused("policy.prepare", "prepares the view of checks");
        }
        if !policy.verify_tools.is_empty() {
            return refused("policy.verify_tools", "names verification commands");
        }
        if !policy.secrets.is_empty() {
            return refused("policy.secrets", "lets tools use secrets");
        }
        Ok(())
    }

    /// A check in the list `verify` of a request.
    pub(super) fn read_check(
        &self,
        mut check: v1::AcceptCheck,
        path: &str,
    ) -> Result<AcceptCheck, Problem> {
        self.own_check(&mut check);
        let check = AcceptCheck::try_from(check)
            .map_err(|error: MessageError| error.under(path))?
            .normalised();
        let check = match self.author {
            Author::Model | Author::Service => AcceptCheck { owner: Owner::Plan, ..check },
            Author::Submitter | Author::Operator => check,
        };
        validate_check(&check, path)?;
        match (self.author, check.owner) {
            (Author::Submitter, Owner::Operator) => Err(Problem::at(
                Code::TypeMismatch,
                format!("{path}.owner"),
                "only an operator may write a check for the operator; leave the owner out",
            )),
            (_, _) => Ok(check),
        }
    }
}
