//! The steps of each event, in each language.

use super::action::EventType;
use super::language::Language;
use super::subject::Subject;

/// The steps in order and without numbers; none for a notice. They hold validated names only: the repository,
/// the number and the slug.
pub(super) fn steps(
    event: EventType,
    language: Language,
    subject: &Subject,
    brief: &str,
) -> Vec<String> {
    let (texts, last) = match language {
        Language::En => (english(event), "Submit the action report."),
        Language::Zh => (chinese(event), "提交行动报告（action report）。"),
    };
    let number = subject.number.unwrap_or_default().to_string();
    let fill = |text: &&str| {
        text.replace("{repo}", &subject.repo).replace("{n}", &number).replace("{brief}", brief)
    };
    let mut steps: Vec<String> = texts.iter().map(fill).collect();
    if !steps.is_empty() {
        steps.push(last.to_owned());
    }
    steps
}

const fn english(event: EventType) -> &'static [&'static str] {
    match event {
        EventType::ReviewApproved => {
            &["Merge the pull request: POST /repos/{repo}/pulls/{n}/merge."]
        }
        EventType::ChangesRequested => &[
            "Change the code, point by point, as the review asks.",
            "Push to the same branch. CI runs.",
            "After CI passes, wait for the new review.",
        ],
        EventType::ReviewRequested => &[
            "Read the diff: GET /repos/{repo}/pulls/{n}.diff.",
            "Review the change by the checklist.",
            "Submit the review as APPROVE or REQUEST_CHANGES: POST /repos/{repo}/pulls/{n}/reviews.",
        ],
        EventType::CommitsPushed => &[
            "Read the diff: GET /repos/{repo}/pulls/{n}.diff.",
            "Look first at what the last review asked for.",
            "Submit the review as APPROVE or REQUEST_CHANGES: POST /repos/{repo}/pulls/{n}/reviews.",
        ],
        EventType::ReviewComment => {
            &["Read the comment.", "Respond: change the code, or reply to the comment."]
        }
        EventType::CiFailed => {
            &["Read the whole CI log.", "Fix the failing tests.", "Push. CI runs again."]
        }
        EventType::IssueAssigned => &[
            "Create the branch fix/{n}-{brief}.",
            "Write the code and its unit tests.",
            "Push, and wait for CI.",
            "After CI passes, open a pull request: POST /repos/{repo}/pulls.",
            "Wait for the review.",
        ],
        EventType::DeploymentFailed => {
            &["Read the deployment's log.", "Find the cause.", "Fix it and deploy again."]
        }
        EventType::Mention => &["Follow the response guidance."],
        EventType::InfrastructureFailure => {
            &["Find out why the forge or the verification failed.", "Restore it."]
        }
        EventType::PullRequestMerged => &[],
    }
}

const fn chinese(event: EventType) -> &'static [&'static str] {
    match event {
        EventType::ReviewApproved => &["合并该 PR：POST /repos/{repo}/pulls/{n}/merge。"],
        EventType::ChangesRequested => &[
            "按评审意见逐条修改代码。",
            "推送到同一分支，CI 会自动运行。",
            "CI 通过后，等待新的评审。",
        ],
        EventType::ReviewRequested => &[
            "阅读 diff：GET /repos/{repo}/pulls/{n}.diff。",
            "按检查清单评审。",
            "以 APPROVE 或 REQUEST_CHANGES 提交评审：POST /repos/{repo}/pulls/{n}/reviews。",
        ],
        EventType::CommitsPushed => &[
            "阅读 diff：GET /repos/{repo}/pulls/{n}.diff。",
            "先检查上一次评审要求修改的内容。",
            "以 APPROVE 或 REQUEST_CHANGES 提交评审：POST /repos/{repo}/pulls/{n}/reviews。",
        ],
        EventType::ReviewComment => &["阅读该评论。", "作出回应：修改代码，或回复该评论。"],
        EventType::CiFailed => &["完整阅读 CI 日志。", "修复失败的测试。", "推送，CI 会再次运行。"],
        EventType::IssueAssigned => &[
            "创建分支 fix/{n}-{brief}。",
            "编写代码和单元测试。",
            "推送并等待 CI。",
            "CI 通过后，创建 PR：POST /repos/{repo}/pulls。",
            "等待评审。",
        ],
        EventType::DeploymentFailed => &["阅读部署日志。", "找到原因。", "修复并重新部署。"],
        EventType::Mention => &["按照回应指引处理。"],
        EventType::InfrastructureFailure => &["查明代码平台或验证失败的原因。", "恢复其运行。"],
        EventType::PullRequestMerged => &[],
    }
}
