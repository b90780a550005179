//! Postgres: the rows of the domain, and the one way to change them.
//!
//! ```text
//!   Write ---> Committer ---> apply.sql ---> Applied | Lost
//!             (one per process, all waiting changes in one statement)
//! ```
//!
//! Each module owns one table and its row types. The SQL is in files.

mod agent;
mod anchor;
mod apply;
mod artifact;
mod audit;
mod claim;
mod committer;
mod create;
mod dedicated_connection;
mod due;
mod error;
mod evidence_bundle;
mod execution;
mod executor;
mod follow;
mod forge_delivery;
mod group;
mod hook;
mod hosts;
mod identities;
mod journal;
mod mail;
mod migrate;
mod namespace_policy;
mod offers;
mod open;
mod options;
mod output;
mod pages;
mod partition;
mod plan;
mod plan_tools;
mod pool;
mod query_batcher;
mod queues;
mod request_outcome;
mod retention;
mod roles;
mod run;
mod run_row;
mod scans;
mod signed_rows;
mod signed_run;
mod signing;
mod stored_time;
mod task;
mod token;
mod token_admin;
mod unread;
mod wait;
mod waits;
mod wake;
mod webhook;
mod worker_calls;
mod worker_tools;
mod workspace_lock;

pub use agent::{delete_agent, find_agent, find_agents, list_agents, put_agent};
pub use anchor::{AnchorBatch, begin_anchoring, forget_anchors};
pub use apply::Outcome;
pub use artifact::{Artifact, artifact_body, keep};
pub use audit::{AuditRow, list_audit};
pub use claim::{Claimed, Leased, Want, claim, find_queues, forgotten, left_over, let_go, orphans};
pub use committer::{Commit, Committer, Observer, Pending, WritePipeline};
pub use create::{Created, Creator, NewRun, find_request};
pub use dedicated_connection::DedicatedConnection;
pub use due::{Cause, due, late_steps, timer_id};
pub use error::StoreError;
pub use evidence_bundle::{EvidenceBundle, EvidenceBundles, TrustSource};
pub use executor::{
    Backlog, Owner, Pulse, RunLease, backlog, beat, register, retire, served_hosts,
};
pub use follow::{Journals, Page};
pub use forge_delivery::{
    DeliveryEnd, DeliveryFilter, DeliveryLog, NewDelivery, StoredDelivery, TakenDelivery,
    WholeDelivery, delivery_backlog, end_forge_deliveries, find_forge_delivery,
    forget_forge_deliveries, list_forge_deliveries, replay_forge_delivery, take_forge_deliveries,
};
pub use hook::{HookChange, StoredHook, delete_hook, list_hooks, put_hook};
pub use identities::Identities;
pub use journal::{events, output_text, verdict, verdict_about};
pub use mail::{
    MailFilter, NewMail, SentMail, StoredMail, delete_mail_language, fail_overdue_mail, find_mail,
    list_mail, mail_is_due, mail_thread, put_mail_language, read_mail, reply_mail, send_mail,
    takes_part, unended_mail,
};
pub use migrate::{migrate, schema_version};
pub use namespace_policy::{NewPolicy, Policies, SetPolicy, StoredPolicy, find_policy, set_policy};
pub use offers::{Offers, Scope};
pub use open::{begin, open};
pub use output::{OutputParts, find_output, is_hidden_call, output_of_step};
pub use pages::{
    ReceiptPages, ReceiptProofs, WorkPage, latest_events, latest_work, receipts, work_page,
};
pub use partition::{drop_partitions, prepare_partitions, time_of};
pub use plan::{StoredPlan, find_plan, has_digest, plan_of};
pub use plan_tools::{PlanTool, forget_other_servers, plan_tools, show_server_tools, show_tools};
pub use pool::{PoolSize, close, connect, patiently, ping};
pub use queues::{Queues, Scan};
pub use request_outcome::{
    AnsweredChange, Kept, NewOutcome, StoredOutcome, apply_answered, find_outcome, forget_outcomes,
};
pub use retention::{
    Forgotten, Retention, forget_journals, forget_runs, forget_tasks, partitions_to_thin,
};
pub use roles::{SERVICE_ROLES, make_service_roles, role_of};
pub use run::{
    LIST_BYTES, RunFilter, RunOwner, RunPage, find_owner, find_run, find_wait, list_runs,
    listed_bytes,
};
pub use scans::{OfferedIn, Scanner, Turns, scan_until};
pub use signed_rows::RunOutline;
pub use signed_run::{SignedRow, SignedRun, verdict_signature};
pub use signing::{CurrentKey, RegisteredKey, Signing, registered_keys};
pub use task::{
    Admission, Assigned, DecisionWait, DueTask, EndedTask, EntryRow, Escalation, EscalationAction,
    EscalationEnd, Inserted, JudgedColumns, JudgedTask, KnownBuild, KnownTask, LeftOut, MadeBefore,
    NewEntry, NewEscalation, NewTask, OpenTasks, StoredTask, TaskCause, TaskEnd, TaskFilter,
    TaskKind, TaskPage, WaitingFor, account_of_task, accounts_of_task, add_entry, add_own_entry,
    count_open_tasks, decision_wait, due_tasks, end_clock, end_escalation, end_task, find_task,
    list_entries, list_tasks, look_again, remind_task, reminded_instructions, report_task,
    start_tasks, take_escalations, task_history, try_assign,
};
pub use token::{StoredToken, TokenHash, copy_tokens, find_token, import_tokens, use_token};
pub use token_admin::{
    CreatedToken, NewToken, Revocation, create_token, list_tokens, revoke_token, token_by_id,
};
pub use unread::{Unread, Unreadable};
pub use wait::{
    Extended, HeldLease, LeaseOrder, OfferedTaskWait, StoredLease, WaitHeartbeats, WaitLease,
    find_lease, holds_decision, lease_wait, lease_waits, offered_namespaces, offered_task_waits,
    release_until, release_wait,
};
pub use waits::{Progress, WaitFilter, WaitPage, Waiting, list_progress, list_waits};
pub use wake::{Listener, Topic, Waker, Wakeups};
pub use webhook::{
    Delivery, WantedEvents, due_webhooks, end_delivery, forget_deliveries, note_events,
    take_deliveries,
};
pub use worker_calls::{
    OfferedWorkerCall, ProgressReport, WantedCalls, begun_calls, held_calls, lost_calls,
    offered_calls, report_progress,
};
pub use worker_tools::{
    KnownTool, OfferedTool, TakenTool, WorkerName, WorkerTimes, known_tools, offer_tools,
    touch_workers, worker_namespaces,
};
pub use workspace_lock::{
    EndedLocks, Holder, HostPath, delete_ended_locks, holds_workspace, lock_workspace,
    unblocked_runs, workspace_holder,
};
