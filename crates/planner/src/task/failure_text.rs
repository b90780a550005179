//! What is written on a forge about a task that failed.

use surety_common::domain::toolchain::{Language, TaskFailure};
use surety_common::store::StoredTask;
use uuid::Uuid;

/// An agent, or what stands for none.
pub(super) fn named<'a>(agent: &'a str, otherwise: &'a str) -> &'a str {
    if agent.is_empty() { otherwise } else { agent }
}

/// The comment on the pull request or the issue. The client of the forge adds the mention and the marker.
pub(super) fn comment(language: Language, failure: TaskFailure, again: Uuid) -> String {
    match language {
        Language::En => format!(
            "The task about this was not done: {failure}. Reading it is not acting on it. The task is handed over \
             again as run {again}: carry out each step, and submit the action report."
        ),
        Language::Zh => format!(
            "与此相关的任务未完成：{failure}。阅读不等于执行。该任务已作为 run {again} 重新下发：请执行每一步并提交行动报告。"
        ),
    }
}

/// The issue for the coordinator: its title and its text.
pub(super) fn issue(
    language: Language,
    task: &StoredTask,
    failure: TaskFailure,
) -> (String, String) {
    let action = &task.payload.action_type;
    let about = match task.subject.number {
        Some(number) => format!("{}#{number}", task.subject.repo),
        None => task.subject.repo.clone(),
    };
    let run_id = task.run_id;
    match language {
        Language::En => (
            format!("Task {action} failed: {failure}"),
            format!(
                "The task `{action}` about {about} failed with `{failure}`. Its assignee is `{}`. Run: `{run_id}`.\n\n\
                 `surety task show {run_id}` shows its history.",
                named(&task.assignee, "none")
            ),
        ),
        Language::Zh => (
            format!("任务 {action} 失败：{failure}"),
            format!(
                "关于 {about} 的任务 `{action}` 失败，原因为 `{failure}`。其负责人为 `{}`。Run：`{run_id}`。\n\n\
                 `surety task show {run_id}` 显示其历史。",
                named(&task.assignee, "无")
            ),
        ),
    }
}
