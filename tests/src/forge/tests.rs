//! The double refuses calls that are not as published, and its own answers too, and fails the test for both.

use super::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const REPO: &str = "team/totals";

/// A double with an account and a pull request, and the prefixes and schemes of both forms.
async fn started() -> Result<ForgeDouble> {
    let double = ForgeDouble::start().await?;
    double.account("robin")?;
    let git = double.repository(REPO, &[("a", "1\n")])?;
    let commit = git.commit("fix", &[("a", "2\n")], "Count")?;
    let pull = State::pull_of("alice", "fix", &commit);
    double.change(|state| state.open_pull(REPO, pull)).context("a pull request")?;
    Ok(double)
}

const FORMS: [(&str, &str); 2] = [("/api/v1", "token"), ("/api/v3", "Bearer")];

/// Calls the double, and returns the status and the body of its answer.
async fn call(
    double: &ForgeDouble,
    (prefix, scheme): (&str, &str),
    (method, path, body): (&str, &str, &Value),
) -> Result<(u16, String)> {
    let token = double.token("robin").context("a token")?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{method} {prefix}/repos/{REPO}/{path} HTTP/1.1\r\nhost: forge\r\nconnection: close\r\nuser-agent: test\r\n\
         authorization: {scheme} {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(double.address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, answer))
}

#[tokio::test]
async fn a_call_that_is_not_as_published_is_refused_and_remembered() -> Result<()> {
    let double = started().await?;
    for form in FORMS {
        for (asked, named) in [
            (("POST", "issues/1/comments", &json!({"body": "x", "mark": 1})), "mark"),
            (("POST", "issues/1/comments", &json!({"body": 1})), "body/body"),
            (("POST", "issues/1/comments", &json!({})), "\"body\" is a required property"),
            (("GET", "pulls?sort=random", &Value::Null), "query/sort"),
            (("GET", "pulls?order=asc", &Value::Null), "order"),
            (("GET", "milestones", &Value::Null), "no forge of this form has this call"),
        ] {
            let (status, answer) = call(&double, form, asked).await?;
            assert_eq!(status, 422, "{answer}");
            let faults = double.take_faults();
            let [fault] = faults.as_slice() else { panic!("{asked:?}: {faults:?}") };
            let called = format!("{} {}/repos/{REPO}/{}", asked.0, form.0, asked.1);
            assert!(fault.starts_with(&called) && fault.contains(named), "{fault}");
        }
        let right = ("POST", "issues/1/comments", &json!({"body": "x"}));
        assert_eq!(call(&double, form, right).await?.0, 201);
    }
    assert_eq!(double.counts().get("add_comment"), Some(&2), "a refused call did no work");
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_not_as_published_is_no_success_and_is_remembered() -> Result<()> {
    let double = started().await?;
    let commit = double.change(|state| {
        let repo = state.repo(REPO)?;
        let at = State::now();
        let states = vec![("exploded".to_owned(), at)];
        let (environment, commit) = ("prod".to_owned(), repo.head_of(1)?);
        repo.deployments.push(DeploymentState {
            id: 5,
            commit: commit.clone(),
            environment,
            states,
            at,
        });
        state.status(REPO, "alice", (&commit, "test", "exploded"))?;
        Some(commit)
    });
    let statuses = format!("commits/{}/status", commit.context("a commit")?);
    let [gitea, github] = FORMS;
    for (form, path, named) in [
        (gitea, statuses.as_str(), "Gitea GET /repos/{}/{}/commits/{}/status, statuses: "),
        (github, "deployments/5/statuses", "GitHub GET /repos/{}/{}/deployments/{}/statuses"),
    ] {
        let (status, answer) = call(&double, form, ("GET", path, &Value::Null)).await?;
        assert_eq!(status, 500, "{answer}");
        let faults = double.take_faults();
        let [fault] = faults.as_slice() else { panic!("{faults:?}") };
        assert!(fault.contains(named) && fault.contains("exploded"), "{fault}");
    }
    Ok(())
}

#[tokio::test]
#[should_panic(expected = "is not as published")]
async fn a_test_fails_where_a_call_was_not_as_published() {
    let double = started().await.expect("a double");
    let wrong = json!({"text": "x"});
    let asked = ("POST", "issues/1/comments", &wrong);
    // The client may take this refusal for one that it expects.
    assert_eq!(call(&double, FORMS[0], asked).await.expect("an answer").0, 422);
}

#[tokio::test]
async fn refusals_have_the_published_statuses_and_forms() -> Result<()> {
    let double = started().await?;
    let git = double.change(|state| state.repo(REPO).map(|repo| repo.git.clone()));
    let git = git.context("a repository")?;
    double.change(|state| {
        let own = State::pull_of("robin", "own", &git.commit("own", &[("a", "3\n")], "Own").ok()?);
        state.open_pull(REPO, own)
    });
    git.commit("main", &[("a", "4\n")], "Another count")?;
    let [gitea, github] = FORMS;
    let commit = "0".repeat(40);
    let approve = |word: &str| json!({"event": word, "body": ""});
    for (form, (method, path), body, expected, said) in [
        (gitea, ("POST", "pulls/2/reviews"), approve("APPROVED"), 422, "own pull"),
        (github, ("POST", "pulls/2/reviews"), approve("APPROVE"), 422, "own pull request"),
        (
            gitea,
            ("POST", "pulls/1/merge"),
            json!({"Do": "merge", "head_commit_id": commit}),
            409,
            "head",
        ),
        (github, ("PUT", "pulls/1/merge"), json!({"sha": commit}), 409, "Head branch"),
        (gitea, ("POST", "pulls/1/merge"), json!({"Do": "merge"}), 409, "conflict"),
        (github, ("PUT", "pulls/1/merge"), json!({}), 405, "not mergeable"),
        (gitea, ("GET", "pulls/99"), Value::Null, 404, "Not Found"),
        (github, ("GET", "pulls/99"), Value::Null, 404, "documentation_url"),
    ] {
        let (status, answer) = call(&double, form, (method, path, &body)).await?;
        assert!(status == expected && answer.contains(said), "{path}: {answer}");
        assert_eq!(form == github, answer.contains("x-ratelimit-remaining"), "{answer}");
    }
    for (failure, status, header) in [
        (Failure::Limited(60), 403, "x-ratelimit-reset: "),
        (Failure::Secondary(60), 403, "retry-after: 60"),
    ] {
        double.fail("pull", failure, (0, 1));
        let (found, answer) = call(&double, github, ("GET", "pulls/1", &Value::Null)).await?;
        assert!(found == status && answer.contains(header), "{answer}");
    }
    Ok(())
}
