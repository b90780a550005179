//! Tasks: the rows beside their runs.
//!
//! ```text
//!   Admission (one transaction) --> task row --start--> run --...--> end_task (one transaction)
//!                                                                      |-- escalation rows: the intents
//!                                                                      +-- task rows that it causes
//! ```

mod account;
mod admission;
mod columns;
mod end;
mod entry;
mod history;
mod judged;
mod known;
mod row;
mod upkeep;

pub(in crate::store) use admission::insert_task;
pub(in crate::store) use history::insert_entry;
pub(in crate::store) use judged::{SignedTask, judged_task};

pub use account::{account_of_task, accounts_of_task};
pub use admission::{Admission, Assigned, Inserted, LeftOut, NewTask};
pub use columns::JudgedColumns;
pub use end::{EndedTask, Escalation, EscalationAction, EscalationEnd, NewEscalation};
pub use end::{end_escalation, end_task, take_escalations};
pub use entry::EntryRow;
pub use history::{
    DecisionWait, NewEntry, WaitingFor, add_entry, add_own_entry, decision_wait, list_entries,
    report_task,
};
pub use judged::{JudgedTask, task_history};
pub use known::{KnownBuild, KnownTask, MadeBefore};
pub use row::{
    StoredTask, TaskEnd, TaskFilter, TaskPage, find_task, list_tasks, reminded_instructions,
};
pub use upkeep::{
    DueTask, OpenTasks, TaskCause, TaskKind, count_open_tasks, due_tasks, end_clock, look_again,
    remind_task, start_tasks, try_assign,
};
