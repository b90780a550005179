//! The steps of each event, in each language.

use super::action::EventType;
use super::forge::Forge;
use super::language::Language;
use super::subject::Subject;

/// What the calls of the steps are about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) forge: Forge,
    pub(super) subject: &'a Subject,
    /// The slug of an issue's title.
    pub(super) brief: &'a str,
}

/// The steps in order and without numbers; none for a notice. They hold validated names only: the repository, the number and
/// the slug. Calls are those of the forge; an event of the service itself is at no place, and its steps have none.
pub(super) fn steps(
    event: EventType,
    language: Language,
    place: Option<&Place<'_>>,
) -> Vec<String> {
    let (texts, last) = match language {
        Language::En => (english(event), "Submit the action report."),
        Language::Zh => (chinese(event), "提交行动报告（action report）。"),
    };
    let fill = |text: &&str| place.map_or_else(|| (*text).to_owned(), |place| place.fill(text));
    let mut steps: Vec<String> = texts.iter().map(fill).collect();
    if !steps.is_empty() {
        steps.push(last.to_owned());
    }
    steps
}

impl Place<'_> {
    fn fill(&self, text: &str) -> String {
        let Calls { diff, review, merge } = Calls::of(self.forge);
        let text =
            text.replace("{diff}", diff).replace("{review}", review).replace("{merge}", merge);
        let number = self.subject.number.unwrap_or_default().to_string();
        let text = text.replace("{repo}", &self.subject.repo).replace("{n}", &number);
        text.replace("{brief}", self.brief)
    }
}

/// The calls that differ between the APIs.
struct Calls {
    diff: &'static str,
    review: &'static str,
    merge: &'static str,
}

impl Calls {
    const fn of(forge: Forge) -> Self {
        match forge {
            Forge::Gitea | Forge::Forgejo => Self {
                diff: "GET /repos/{repo}/pulls/{n}.diff",
                review: "POST /repos/{repo}/pulls/{n}/reviews, event=APPROVED|REQUEST_CHANGES",
                merge: "POST /repos/{repo}/pulls/{n}/merge, Do=merge",
            },
            Forge::Github => Self {
                diff: "GET /repos/{repo}/pulls/{n}, Accept: application/vnd.github.diff",
                review: "POST /repos/{repo}/pulls/{n}/reviews, event=APPROVE|REQUEST_CHANGES",
                merge: "PUT /repos/{repo}/pulls/{n}/merge",
            },
        }
    }
}

const fn english(event: EventType) -> &'static [&'static str] {
    match event {
        EventType::ReviewApproved => &["Merge the pull request: {merge}."],
        EventType::ChangesRequested => &[
            "Change the code, point by point, as the review asks.",
            "Push to the same branch. CI runs.",
            "After CI passes, wait for the new review.",
        ],
        EventType::ReviewRequested => &[
            "Read the diff: {diff}.",
            "Review the change by the checklist below, point by point.",
            "Submit the review as APPROVE or REQUEST_CHANGES: {review}.",
        ],
        EventType::CommitsPushed => &[
            "Read the diff: {diff}.",
            "Look first at what the last review asked for.",
            "Submit the review as APPROVE or REQUEST_CHANGES: {review}.",
        ],
        EventType::ReviewComment => &[
            "Read the comment.",
            "Respond: change the code, or reply: POST /repos/{repo}/issues/{n}/comments.",
        ],
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
        EventType::Mention => {
            &["Follow the response guidance. A reply is POST /repos/{repo}/issues/{n}/comments."]
        }
        EventType::InfrastructureFailure => {
            &["Find out why the forge or the verification failed.", "Restore it."]
        }
        EventType::PullRequestMerged => &[],
    }
}

const fn chinese(event: EventType) -> &'static [&'static str] {
    match event {
        EventType::ReviewApproved => &["合并该 PR：{merge}。"],
        EventType::ChangesRequested => &[
            "按评审意见逐条修改代码。",
            "推送到同一分支，CI 会自动运行。",
            "CI 通过后，等待新的评审。",
        ],
        EventType::ReviewRequested => &[
            "阅读 diff：{diff}。",
            "按下面的检查清单逐条评审。",
            "以 APPROVE 或 REQUEST_CHANGES 提交评审：{review}。",
        ],
        EventType::CommitsPushed => &[
            "阅读 diff：{diff}。",
            "先检查上一次评审要求修改的内容。",
            "以 APPROVE 或 REQUEST_CHANGES 提交评审：{review}。",
        ],
        EventType::ReviewComment => &[
            "阅读该评论。",
            "作出回应：修改代码，或回复：POST /repos/{repo}/issues/{n}/comments。",
        ],
        EventType::CiFailed => &["完整阅读 CI 日志。", "修复失败的测试。", "推送，CI 会再次运行。"],
        EventType::IssueAssigned => &[
            "创建分支 fix/{n}-{brief}。",
            "编写代码和单元测试。",
            "推送并等待 CI。",
            "CI 通过后，创建 PR：POST /repos/{repo}/pulls。",
            "等待评审。",
        ],
        EventType::DeploymentFailed => &["阅读部署日志。", "找到原因。", "修复并重新部署。"],
        EventType::Mention => {
            &["按照回应指引处理。回复使用 POST /repos/{repo}/issues/{n}/comments。"]
        }
        EventType::InfrastructureFailure => &["查明代码平台或验证失败的原因。", "恢复其运行。"],
        EventType::PullRequestMerged => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_the_steps_are_those_of_the_forge() {
        let subject = Subject {
            server: String::new(),
            repo: "o/r".to_owned(),
            number: Some(7),
            is_pull_request: true,
        };
        let calls = |forge: Forge, event: EventType| {
            let place = Place { forge, subject: &subject, brief: "" };
            let texts = Language::ALL.iter().map(|language| steps(event, *language, Some(&place)));
            texts.map(|texts| texts.join(" ")).collect::<Vec<String>>()
        };
        for (forge, event, wanted) in [
            (Forge::Gitea, EventType::ReviewApproved, "POST /repos/o/r/pulls/7/merge, Do=merge"),
            (Forge::Forgejo, EventType::ReviewApproved, "POST /repos/o/r/pulls/7/merge, Do=merge"),
            (Forge::Github, EventType::ReviewApproved, "PUT /repos/o/r/pulls/7/merge"),
            (Forge::Gitea, EventType::ReviewRequested, "GET /repos/o/r/pulls/7.diff"),
            (
                Forge::Github,
                EventType::ReviewRequested,
                "GET /repos/o/r/pulls/7, Accept: application/vnd.github.diff",
            ),
            (Forge::Forgejo, EventType::CommitsPushed, "event=APPROVED|REQUEST_CHANGES"),
            (Forge::Github, EventType::CommitsPushed, "event=APPROVE|REQUEST_CHANGES"),
        ] {
            for text in calls(forge, event) {
                assert!(text.contains(wanted), "{forge} {event}: {text}");
            }
        }
        for forge in Forge::ALL {
            for event in EventType::ALL {
                for text in calls(*forge, *event) {
                    assert!(!text.contains(['{', '}']), "{forge} {event}: {text}");
                }
            }
        }
    }
}
