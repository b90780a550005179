//! The checks refuse what is not as published, and say where.

use super::*;

fn query(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn call(form: Form, route: &str, body: &Value) -> Result<(), String> {
    check_call(&Asked { form, route, query: &BTreeMap::new(), body })
}

/// Each call that a client of the form makes.
fn routes(published: &Published) -> Vec<&str> {
    let routes = published.document.get("routes").and_then(Value::as_object);
    routes.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn every_schema_of_every_description_compiles() {
    let mut checked = 0;
    for published in [&*GITEA, &*FORGEJO, &*GITHUB] {
        for route in routes(published) {
            let described = published.route(route).expect("a route");
            let answers = described["answers"].as_object().expect("answers");
            let answers = answers.iter().filter(|(_, schema)| !schema.is_null());
            let mut places: Vec<_> = answers.map(|(it, _)| format!("answers/{it}")).collect();
            places.push("query".to_owned());
            places.extend(described.get("body").map(|_| "body".to_owned()));
            for place in places {
                let place = format!("/routes/{route}/{place}");
                assert!(published.validator(&place).is_ok(), "{} {place}", published.forge);
                checked += 1;
            }
        }
    }
    assert!(checked > 150, "{checked}");
}

#[test]
fn a_call_that_is_not_as_published_is_named_with_its_place() {
    let review = |event: Value| json!({"event": event, "body": "Well."});
    let pull = json!({"title": "x", "head": "fix", "base": "main"});
    let issue = |labels: Value| json!({"title": "x", "labels": labels});
    for (form, route, body) in [
        (Form::Gitea, "submit_review", review(json!("APPROVED"))),
        (Form::Github, "submit_review", review(json!("APPROVE"))),
        (Form::Gitea, "open_pull", pull.clone()),
        (Form::Github, "open_pull", pull),
        (Form::Gitea, "create_issue", issue(json!([4]))),
        (Form::Github, "create_issue", issue(json!(["bug"]))),
        (Form::Gitea, "merge", json!({"Do": "squash", "head_commit_id": "0a"})),
        (Form::Github, "merge", json!({"merge_method": "squash", "sha": "0a"})),
    ] {
        assert_eq!(call(form, route, &body), Ok(()), "{route}");
    }
    for (form, route, body, named) in [
        (Form::Gitea, "submit_review", review(json!("APPROVE")), "/event"),
        (Form::Github, "submit_review", review(json!("APPROVED")), "/event"),
        (Form::Github, "submit_review", review(json!(1)), "/event"),
        (Form::Gitea, "open_pull", json!({"title": "x", "head": "fix"}), "base"),
        (Form::Github, "open_pull", json!({"title": "x", "head": "fix"}), "base"),
        (Form::Gitea, "create_issue", issue(json!(["bug"])), "/labels/0"),
        (Form::Github, "create_issue", issue(json!([4])), "/labels/0"),
        (Form::Gitea, "add_comment", json!({"body": "x", "mark": 1}), "mark"),
        (Form::Github, "add_comment", json!({"body": "x", "mark": 1}), "mark"),
        (Form::Gitea, "add_comment", json!({}), "body"),
        (Form::Github, "reply", json!({"body": null}), "/body"),
        (Form::Gitea, "merge", json!({"head_commit_id": "0a"}), "merge"),
        (Form::Github, "merge", json!({"Do": "merge"}), "Do"),
        (Form::Gitea, "pull", json!({"x": 1}), "has none"),
        (Form::Gitea, "deployments", Value::Null, "no forge"),
        (Form::Github, "labels", Value::Null, "no forge"),
    ] {
        let error = call(form, route, &body).expect_err("it is not as published");
        assert!(error.contains(named) && error.contains(route), "{error}");
    }
    let refused = call(Form::Github, "add_comment", &json!({})).expect_err("a refusal");
    assert!(refused.starts_with("GitHub POST /repos/{}/{}/issues/{}/comments"), "{refused}");
}

#[test]
fn a_query_that_is_not_as_published_is_named_with_its_place() {
    let asked = |form, route, pairs: &[(&str, &str)]| {
        check_call(&Asked { form, route, query: &query(pairs), body: &Value::Null })
    };
    for (form, route, right, wrong, named) in [
        (Form::Gitea, "pulls_since", ("sort", "recentupdate"), ("sort", "updated"), "/sort"),
        (Form::Github, "pulls_since", ("sort", "updated"), ("sort", "recentupdate"), "/sort"),
        (Form::Gitea, "reviews", ("limit", "50"), ("per_page", "100"), "per_page"),
        (Form::Github, "reviews", ("per_page", "100"), ("limit", "50"), "limit"),
        (Form::Github, "reviews", ("page", "2"), ("page", "two"), "/page"),
        (Form::Gitea, "comments", ("since", "2026-11-20T10:00:00Z"), ("since", "today"), "/since"),
        (Form::Gitea, "comments", ("before", "2026-11-20T10:00:00Z"), ("limit", "50"), "limit"),
        (Form::Gitea, "commit", ("stat", "false"), ("stat", "no"), "/stat"),
    ] {
        assert_eq!(asked(form, route, &[right]), Ok(()), "{route} {right:?}");
        let error = asked(form, route, &[wrong]).expect_err("it is not as published");
        assert!(error.contains(named) && error.contains(route), "{error}");
    }
}

#[test]
fn an_answer_that_is_not_as_published_is_named_with_its_place() {
    let label =
        |id: Value| json!([{"id": id, "name": "bug", "color": "ededed", "description": ""}]);
    let labels = |body: &Value| check_answer(Form::Gitea, "labels", (200, Some(body)));
    assert_eq!(labels(&label(json!(4))), Ok(()));
    for (answer, named) in [
        (label(json!("4")), "/0/id"),
        (json!({}), "array"),
        (json!([{"id": 4, "name": "bug", "description": ""}]), "color"),
        (json!([{"id": 4, "name": null, "color": "", "description": ""}]), "/0/name"),
        (json!([{"id": 4, "name": "x", "color": "", "description": "", "kind": 1}]), "kind"),
    ] {
        let error = labels(&answer).expect_err("it is not as published");
        assert!(error.contains(named) && error.contains("labels"), "{error}");
    }
    let review = |state: &str| {
        json!({"id": 1, "user": null, "body": "", "state": state, "commit_id": null,
            "html_url": "https://forge.example", "submitted_at": "2026-11-20T10:00:00Z"})
    };
    let of_github = |body: &Value| check_answer(Form::Github, "submit_review", (200, Some(body)));
    assert_eq!(of_github(&review("APPROVED")), Ok(()));
    let mut without = review("APPROVED");
    without.as_object_mut().expect("an object").remove("state");
    let mut late = review("APPROVED");
    late["submitted_at"] = json!("yesterday");
    for (answer, named) in [(without, "state"), (late, "/submitted_at")] {
        let error = of_github(&answer).expect_err("it is not as published");
        assert!(error.contains(named) && error.contains("submit_review"), "{error}");
    }
}

#[test]
fn a_status_that_a_call_does_not_have_is_named() {
    let refused = json!({"message": "no"});
    let answered = |form, route, status| check_answer(form, route, (status, Some(&refused)));
    for (form, route, status) in [
        (Form::Gitea, "merge", 405),
        (Form::Gitea, "merge", 409),
        (Form::Github, "merge", 405),
        (Form::Github, "merge", 409),
        (Form::Gitea, "submit_review", 422),
        (Form::Github, "pull", 429),
        (Form::Gitea, "pull", 503),
    ] {
        assert_eq!(answered(form, route, status), Ok(()), "{route} {status}");
    }
    for (form, route, status) in [
        (Form::Gitea, "submit_review", 409),
        (Form::Github, "submit_review", 405),
        (Form::Gitea, "pull", 422),
        (Form::Github, "open_pull", 409),
    ] {
        let error = answered(form, route, status).expect_err("it is not published");
        assert!(error.contains(&status.to_string()) && error.contains(route), "{error}");
    }
    // The refusals of GitHub have a form of their own.
    let error = answered(Form::Github, "open_pull", 422).expect_err("it is not as published");
    assert!(error.contains("documentation_url"), "{error}");
    assert!(check_answer(Form::Gitea, "diff", (200, None)).is_ok());
    assert!(check_answer(Form::Gitea, "pull", (200, None)).is_err());
    assert!(check_answer(Form::Gitea, "merge", (200, Some(&refused))).is_err());
}

#[test]
fn the_two_apis_differ_where_their_documents_do() {
    let status = |word: &str| {
        let mut status = json!({
            "id": 1, "context": "test", "description": "", "target_url": "https://ci.example/1",
            "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T10:00:00Z",
        });
        status[word] = json!("failure");
        if word == "state" {
            status["avatar_url"] = Value::Null;
        }
        json!({"state": "failure", "sha": "0a", "total_count": 1, "statuses": [status]})
    };
    let fits = |form, word| check_answer(form, "statuses", (200, Some(&status(word))));
    assert_eq!(fits(Form::Gitea, "status"), Ok(()));
    assert_eq!(fits(Form::Github, "state"), Ok(()));
    assert!(fits(Form::Gitea, "state").is_err());
    assert!(fits(Form::Github, "status").is_err());
}
