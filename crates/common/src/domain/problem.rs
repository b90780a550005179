//! What can be wrong with an input, as a closed set of codes.
//!
//! A [`Problem`] says what is wrong, where, and what to do. A [`Warning`] says what a tolerant
//! reader corrected in a usable text.

/// One error in an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}{}: {message}", at(.field))]
pub struct Problem {
    /// The stable code, the same on the wire and in every client.
    pub code: Code,
    /// The path of the invalid field, such as `steps[2].verify[0].kind`; none for the whole input.
    pub field: Option<String>,
    /// One sentence: what is wrong and what to do.
    pub message: String,
}

fn at(field: &Option<String>) -> String {
    field.as_ref().map(|field| format!(" at {field}")).unwrap_or_default()
}

impl Problem {
    /// A problem with the whole input.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, field: None, message: message.into() }
    }

    /// A problem with one field.
    pub fn at(code: Code, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, field: Some(field.into()), message: message.into() }
    }

    /// The same problem of an object that lies at a path.
    #[must_use]
    pub fn under(self, path: &str) -> Self {
        let field = match &self.field {
            Some(field) => format!("{path}.{field}"),
            None => path.to_owned(),
        };
        Self { field: Some(field), ..self }
    }
}

/// A correction that a reader made. The input is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The stable code.
    pub code: WarningCode,
    /// The path of the field; none for the whole input.
    pub field: Option<String>,
    /// What is meant here; none where the code says all.
    pub detail: Option<String>,
}

impl Warning {
    /// A warning about the whole input.
    pub fn new(code: WarningCode) -> Self {
        Self { code, field: None, detail: None }
    }

    /// A warning about one field.
    pub fn at(code: WarningCode, field: impl Into<String>) -> Self {
        Self { code, field: Some(field.into()), detail: None }
    }

    /// One sentence: what was assumed or corrected.
    pub fn message(&self) -> &str {
        self.detail.as_deref().unwrap_or(self.code.meaning())
    }
}

/// Declares a closed set of codes with their meanings, the single source for the wire, the docs and
/// the clients.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal, $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $(#[doc = $meaning] $variant,)*
        }

        impl $name {
            /// Every member, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable text of the code.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What the code means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }

            /// The member with this text.
            pub fn from_text(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use codes;

codes! {
    /// Why an input was refused.
    Code {
        EmptyOutput = "empty_output", "The text is blank without its byte-order mark and its thinking.";
        NoJsonObject = "no_json_object", "The text contains no complete JSON object.";
        JsonSyntax = "json_syntax", "The text contains a balanced object that is not strict JSON.";
        TooDeep = "too_deep", "The object nests more than 128 levels deep.";
        TooLarge = "too_large", "The text exceeds its size limit, by default 1,048,576 bytes.";
        TypeMismatch = "type_mismatch", "A field has a value of another type than the contract requires.";
        WrongTypeTag = "wrong_type_tag", "The `type` tag does not match this message.";

        TitleMissing = "title_missing", "The plan has no title.";
        StepsEmpty = "steps_empty", "The plan has no steps.";
        StepIdEmpty = "step_id_empty", "A step has no id.";
        StepDescriptionEmpty = "step_description_empty", "A step has no description.";
        DuplicateStepId = "duplicate_step_id", "Two steps have the same id after trimming.";
        UnknownDependency = "unknown_dependency", "A step depends on an id that no step has.";
        SelfDependency = "self_dependency", "A step depends on itself.";
        DependencyCycle = "dependency_cycle", "Steps depend on each other in a cycle.";
        PlanTooLong = "plan_too_long", "The plan has more steps than max_plan_steps.";

        CheckKindMissing = "check_kind_missing", "A check names no kind.";
        CheckIdReserved = "check_id_reserved", "A check's id begins with `system.`, which is reserved for the gate.";
        MatchUnknown = "match_unknown", "A check's match is none of prefix, exact and contains.";
        CheckTargetEmpty = "check_target_empty", "A check of this kind needs a target.";
        CheckUnreadable = "check_unreadable", "A check written as text is neither a command nor a file.";
        CheckNeedleEmpty = "check_needle_empty", "A content_contains check needs params.contains.";
        OverlayNotAllowed = "overlay_not_allowed", "Only a required command_success check of a user or an operator has an overlay.";
        OverlayPathInvalid = "overlay_path_invalid", "A path of an overlay is none of a file inside the workspace.";
        SandboxNotAllowed = "sandbox_not_allowed", "Only a command_success check of a user or an operator runs without a sandbox.";
        OverlayUnknown = "overlay_unknown", "A check names an overlay by a digest that no check of the run's plan has.";
        VerifyToolUnknown = "verify_tool_unknown", "A required tool_fact check names no verification command of its run.";
        VerifyScopeInvalid = "verify_scope_invalid", "A verification command does not take this scope, or needs one.";
        RepositoryInvalid = "repository_invalid", "The address, the revision or the secret of a repository is no usable one.";
        CheckOwnerProtected = "check_owner_protected", "A patch may not remove or weaken a check owned by a user or an operator.";
        StepRuleProtected = "step_rule_protected", "An agent's plan may not loosen the write scope, the tools or the evidence of a step of a user or an operator.";

        ForbiddenField = "forbidden_field", "A patch contains a field that patches must not contain.";
        PatchConflict = "patch_conflict", "A patch names a step in two of its lists.";
        DoneStepImmutable = "done_step_immutable", "A done step cannot be changed or removed.";
        UnknownStep = "unknown_step", "An update names a step the plan does not have.";
        StepIdExists = "step_id_exists", "An added step's id is already taken.";
        PlanOverCapacity = "plan_over_capacity", "The plan already has more steps than max_plan_steps.";
        DanglingDependency = "dangling_dependency", "A removed step is still needed by another.";
        PatchIsNoop = "patch_is_noop", "The patch changes nothing.";

        ActionMissing = "action_missing", "The decision names no action.";
        ActionUnknown = "action_unknown", "The decision's action is none of the six.";
        ToolCallNotObject = "tool_call_not_object", "tool_call is not one object (one tool a turn).";
        AbortNotObject = "abort_not_object", "abort is not an object.";
        ToolCallForbidden = "tool_call_forbidden", "This action must not have a tool call.";
        ToolCallRequired = "tool_call_required", "This action needs a tool call.";
        ToolNameMissing = "tool_name_missing", "The tool call names no tool.";
        AbortForbidden = "abort_forbidden", "Only the action abort may have an abort object.";
        AbortRequired = "abort_required", "The action abort needs an abort object.";
        AbortMessageMissing = "abort_message_missing", "An abort needs a user_message.";

        GoalCheckMissing = "goal_check_missing", "next_plan and done need a goal_check.";
        StepsRemaining = "steps_remaining", "The action is done while another step is not done.";
        UnknownTool = "unknown_tool", "No tool has that name.";
        ToolNotAllowed = "tool_not_allowed", "The step does not allow that tool.";
        WriteRequiresConfirm = "write_requires_confirm", "That tool needs a confirmation; ask with the action confirm.";
        PendingConfirmation = "pending_confirmation", "A confirmation is open; no other action may start before its answer.";
        EvidenceMissing = "evidence_missing", "No successful receipt belongs to this step and this plan revision.";
        StepCheckFailed = "step_check_failed", "A check of the step does not hold.";
        FuseReached = "fuse_reached", "A limit of the step or the run is reached.";
        BudgetExhausted = "budget_exhausted", "The run's token or cost budget is used up.";
        RepeatCycle = "repeat_cycle", "The same call gave the same result too often.";
        ReplyCut = "reply_cut", "The endpoint ended the reply of a model at its token limit; it is not read.";
        AnswerSchemaInvalid = "answer_schema_invalid", "The question's answer_schema is no JSON Schema that can be used.";
        AnswerInvalid = "answer_invalid", "The answer does not fit the question's JSON Schema.";
        GrantMismatch = "grant_mismatch", "The grant does not fit the call that was shown; the path names the argument.";
        ArgumentsInvalid = "arguments_invalid", "The arguments do not match the tool's JSON Schema.";

        StepIndexMissing = "step_index_missing", "The receipt has no step_index.";
        StepIndexNegative = "step_index_negative", "The receipt's step_index is below zero.";
        EvidenceSourceUnknown = "evidence_source_unknown", "The receipt's source is unknown.";

        TodoNotFound = "todo_not_found", "No todo has that id; the message lists the active ids.";
        DuplicateTodoId = "duplicate_todo_id", "Two todos have the same id after trimming.";
        TodoTerminal = "todo_terminal", "The todo is completed, failed or cancelled, which is final.";
        TodoDependencyOpen = "todo_dependency_open", "The todo cannot be begun or completed before the todos that it depends on.";
        CanceledRequiredNeedsReplacement = "canceled_required_needs_replacement", "A required todo can be cancelled only when another required todo replaces it.";

        EventTypeMissing = "event_type_missing", "The payload of a task names no event.";
        ActionTypeMissing = "action_type_missing", "The payload of a task names no action.";
        StepsMissing = "steps_missing", "The payload of a task has no list of steps.";
        FromMissing = "from_missing", "The payload of a task does not say who caused it.";
        EntryKindUnknown = "entry_kind_unknown", "The kind of a task's entry is unknown, or only the service writes it.";

        LimitOutOfRange = "limit_out_of_range", "A limit is outside its range.";
        PolicyExceeded = "policy_exceeded", "The request asks for more than the policy of its namespace allows.";
        KeyWithoutEffect = "key_without_effect", "A limit or a rule has no effect in this version.";
        FieldMissing = "field_missing", "A required field is missing.";
        InvalidId = "invalid_id", "An id is not a UUID.";
    }
}

codes! {
    /// What a tolerant reader corrected.
    WarningCode {
        ArrayUnwrapped = "array_unwrapped", "A one-element array around the object was removed.";
        ExtraObjectIgnored = "extra_object_ignored", "An object after the first valid one was ignored.";
        DuplicateKey = "duplicate_key", "An object has a key twice; the last value was used.";
        KeyCaseFolded = "key_case_folded", "A key in another case was read as the known key.";
        ActionCaseFolded = "action_case_folded", "An action in another case was read as the known action.";
        IdCoerced = "id_coerced", "A number was read as an id.";
        DuplicateDependency = "duplicate_dependency", "A repeated dependency was counted once.";
        StatusIgnored = "status_ignored", "A status in a plan was ignored; the step starts pending.";
        UnknownRemoveId = "unknown_remove_id", "A patch removes a step that the plan does not have.";
        EmptyArrayAsAbsent = "empty_array_as_absent", "An empty array was read as absent.";
        EmptyStringAsObject = "empty_string_as_object", "Blank text was read as an empty object.";
        ObjectInString = "object_in_string", "An object written as text was read.";
        QuestionAsSpeak = "question_as_speak", "The question of ask_user stood in the key question; it was read as speak.";
        GoalCheckSerialized = "goal_check_serialized", "A goal_check that is an object or array was kept as its JSON text.";
        SingleCheckWrapped = "single_check_wrapped", "A single check was read as a list of one.";
        LegacyCheckMigrated = "legacy_check_migrated", "A check written as plain text was read as its current form.";
        ParamStringified = "param_stringified", "A parameter that is a number or a boolean became text.";
        DuplicateCheckDropped = "duplicate_check_dropped", "Two equivalent checks became one.";
        CheckNamesProduct = "check_names_product", "A file that a check names is taken for the product: the run may change it.";
        CheckScriptProtected = "check_script_protected", "A file that a check names is taken for a part of the check, which runs with the original.";
        PlanClipped = "plan_clipped", "The plan was truncated to its first steps.";
        ControlProtocolLegacy = "control_protocol_legacy", "The old marker form of the control envelope was read.";
        ToolAlias = "tool_alias", "A tool was named by an alias; the call has the tool's own name.";
    }
}
