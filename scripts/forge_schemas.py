#!/usr/bin/env python3
"""Cuts the published descriptions of the forges' APIs down to what the double of a forge checks calls against.

  scripts/forge_schemas.py github  VERSION api.github.com.json
  scripts/forge_schemas.py gitea   VERSION v1_json.tmpl modules/structs
  scripts/forge_schemas.py forgejo VERSION v1_json.tmpl modules/structs

Prints the file tests/src/forge/schema/FORGE.json. The README beside that file says where the descriptions come from.

Of an answer only the fields are kept whose name is in `KEPT`: those that the product reads or that the double shows.
Of a request every field and every name of the query is kept, because a field that is not there must be refused.
"""

import json
import pathlib
import re
import sys

# A field with one of these names is kept in every object of an answer.
KEPT = frozenset(
    """
    additions assignee assignees author avatar_url base body changes check_runs closed_at color comments commit
    commit_id committer completed_at conclusion context created_at date default_branch deletions description
    dismissed display_title documentation_url draft email environment errors filename full_name head head_sha
    html_url id in_reply_to_id jobs label labels line login mergeable merge_commit_sha merged merged_at merged_by
    message milestone name number official output owner parents path position private protected pull_request
    pull_request_review_id ref repo requested_reviewers run_id sha stale started_at state status statuses
    submitted_at summary target_url task text timestamp title total_count type updated_at user username
    workflow_runs
    """.split()
)

REPO = "/repos/{}/{}"
# The calls: their name, their method, and their path with {} for each parameter.
COMMON = [
    ("current_user", "get", "/user"),
    ("pulls_since", "get", f"{REPO}/pulls"),
    ("open_pull", "post", f"{REPO}/pulls"),
    ("pull", "get", f"{REPO}/pulls/{{}}"),
    ("changed_files", "get", f"{REPO}/pulls/{{}}/files"),
    ("reviews", "get", f"{REPO}/pulls/{{}}/reviews"),
    ("submit_review", "post", f"{REPO}/pulls/{{}}/reviews"),
    ("issues_of", "get", f"{REPO}/issues"),
    ("create_issue", "post", f"{REPO}/issues"),
    ("issue", "get", f"{REPO}/issues/{{}}"),
    ("comments", "get", f"{REPO}/issues/{{}}/comments"),
    ("add_comment", "post", f"{REPO}/issues/{{}}/comments"),
    ("statuses", "get", f"{REPO}/commits/{{}}/status"),
    ("branch_head", "get", f"{REPO}/branches/{{}}"),
    ("ci_runs", "get", f"{REPO}/actions/runs"),
    ("ci_jobs", "get", f"{REPO}/actions/runs/{{}}/jobs"),
    ("ci_log", "get", f"{REPO}/actions/jobs/{{}}/logs"),
]
GITHUB = COMMON + [
    # The description has no answer for the media type of a diff.
    ("diff", "get", f"{REPO}/pulls/{{}}"),
    ("merge", "put", f"{REPO}/pulls/{{}}/merge"),
    ("review_comments", "get", f"{REPO}/pulls/{{}}/comments"),
    ("reply", "post", f"{REPO}/pulls/{{}}/comments/{{}}/replies"),
    ("check_runs", "get", f"{REPO}/commits/{{}}/check-runs"),
    ("commit", "get", f"{REPO}/commits/{{}}"),
    ("deployments", "get", f"{REPO}/deployments"),
    ("deployment_statuses", "get", f"{REPO}/deployments/{{}}/statuses"),
]
GITEA = COMMON + [
    ("diff", "get", f"{REPO}/pulls/{{}}.{{}}"),
    ("merge", "post", f"{REPO}/pulls/{{}}/merge"),
    ("review_comments", "get", f"{REPO}/pulls/{{}}/reviews/{{}}/comments"),
    ("labels", "get", f"{REPO}/labels"),
    ("commit", "get", f"{REPO}/git/commits/{{}}"),
]
# A name that a server takes and its description leaves out. Gitea describes `do` since 1.26 and takes `Do` as before
# (`MergePullRequestForm.UnmarshalJSON`); Gitea 1.25 and Forgejo describe `Do`.
EARLIER = {"MergePullRequestOption": ("do", "Do")}
# Their answers are texts.
TEXTS = {"diff", "ci_log"}


class Cut:
    """One description and what was taken of it."""

    def __init__(self, document, definitions, facts):
        self.document = document
        self.named = definitions
        # What the servers' own types say of an object: field -> (is it always there, may it be null, must a request
        # have it).
        self.facts = facts
        self.taken = {}

    def paths(self):
        return {re.sub(r"\{[^}]*\}", "{}", path): of for path, of in self.document["paths"].items()}

    def resolved(self, value):
        while "$ref" in value:
            target = self.document
            for part in value["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            value = target
        return value

    def reference(self, name, is_request):
        """A reference to a named object, which is taken with it."""
        key = f"request.{name}" if is_request else name
        if key not in self.taken:
            # An object may refer to itself.
            self.taken[key] = {}
            taken = self.schema(self.named[name], is_request, self.facts.get(name, {}))
            now, earlier = EARLIER.get(name, (None, None))
            if is_request and now in taken.get("properties", {}):
                taken["properties"][earlier] = taken["properties"][now]
                taken["required"].remove(now)
                taken["oneOf"] = [{"required": [now]}, {"required": [earlier]}]
            self.taken[key] = taken
        return {"$ref": f"#/definitions/{key}"}

    def schema(self, value, is_request, facts=None):
        """A schema of a value: kinds, words, times, and the kept fields."""
        if "$ref" in value:
            return self.reference(value["$ref"].split("/")[-1], is_request)
        several = value.get("oneOf") or value.get("anyOf")
        if several:
            shapes = [self.schema(one, is_request) for one in several]
            nothing = [{"type": "null"}] if value.get("nullable") else []
            return {"anyOf": shapes + nothing}
        if len(value.get("allOf", [])) == 1:
            return self.schema(value["allOf"][0], is_request)
        kind = value.get("type", "object" if "properties" in value else None)
        made = {}
        if kind:
            made["type"] = [kind, "null"] if value.get("nullable") else kind
        if "enum" in value:
            made["enum"] = value["enum"] + ([None] if value.get("nullable") else [])
        if value.get("format") == "date-time":
            made["format"] = "date-time"
        if kind == "array":
            made["items"] = self.schema(value["items"], is_request)
        if kind == "object" and "properties" in value:
            made.update(self.fields(value, is_request, facts or {}))
        return made

    def fields(self, value, is_request, facts):
        required = set(value.get("required", []))
        properties = {}
        for name, of in sorted(value["properties"].items()):
            if not is_request and name not in KEPT:
                continue
            properties[name] = self.schema(of, is_request)
            is_there, may_be_null, is_asked_for = facts.get(name, (name in required, False, False))
            if is_request:
                required |= {name} if is_asked_for else set()
                continue
            required = required | {name} if is_there else required - {name}
            if may_be_null:
                properties[name] = {"anyOf": [properties[name], {"type": "null"}]}
        kept = sorted(required & properties.keys())
        made = {"properties": properties, "additionalProperties": False}
        return {**made, "required": kept} if kept else made


def query_of(cut, call):
    """The names of a call's query. A list is one text there."""
    properties, required = {}, []
    for one in map(cut.resolved, call.get("parameters", [])):
        if one["in"] != "query":
            continue
        of = cut.schema(one.get("schema", one), True)
        properties[one["name"]] = {"type": "string"} if of.get("type") == "array" else of
        if one.get("required"):
            required.append(one["name"])
    made = {"type": "object", "properties": dict(sorted(properties.items())), "additionalProperties": False}
    return {**made, "required": sorted(required)} if required else made


def body_of(cut, call):
    """The schema of a call's body; none where it has none."""
    if "requestBody" in call:
        return cut.schema(cut.resolved(call["requestBody"])["content"]["application/json"]["schema"], True)
    parameters = map(cut.resolved, call.get("parameters", []))
    return next((cut.schema(one["schema"], True) for one in parameters if one["in"] == "body"), None)


def answers_of(cut, name, call):
    """The schemas of a call's answers by their status; none for an answer that is no JSON."""
    answers = {}
    for status, answer in sorted(call["responses"].items()):
        answer = cut.resolved(answer)
        of = answer.get("content", {}).get("application/json", answer).get("schema")
        is_text = name in TEXTS and status.startswith("2")
        answers[status] = None if of is None or is_text else cut.schema(of, False)
    return answers


def made(cut, source, calls):
    paths = cut.paths()
    routes = {}
    for name, method, path in sorted(calls):
        call = paths.get(path, {}).get(method)
        if call is None:
            print(f"{name}: the description has no {method} {path}", file=sys.stderr)
            continue
        route = {"method": method.upper(), "path": path, "query": query_of(cut, call)}
        body = body_of(cut, call)
        if body is not None:
            route["body"] = body
        route["answers"] = answers_of(cut, name, call)
        routes[name] = route
    definitions = dict(sorted(cut.taken.items()))
    return {"source": source, "routes": routes, "definitions": definitions}


FIELD = re.compile(r'^\s+\w+\s+(\S+)\s+`.*?json:"([^",]+)([^"]*)".*`')
EMBEDDED = re.compile(r"^\s+\*?(\w+)$")


def facts_of(folder):
    """What the types of the server say, which its description leaves out: type -> field -> facts.

    An answer has every field that is not left out when it is empty, and pointers and lists can be null. A request
    needs the fields whose binding is required.
    """
    structs = {}
    for path in sorted(pathlib.Path(folder).glob("*.go")):
        text = path.read_text(encoding="utf-8")
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.M | re.S):
            structs[name] = body.splitlines()

    def fields(name):
        found = {}
        for line in structs.get(name, []):
            if embedded := EMBEDDED.match(line):
                found.update(fields(embedded[1]))
            elif field := FIELD.match(line):
                kind, name_in_json, options = field.groups()
                binding = re.search(r'binding:"([^"]*)"', line)
                is_asked_for = bool(binding and "Required" in binding[1])
                may_be_null = kind.startswith(("*", "[]", "map["))
                found[name_in_json] = ("omitempty" not in options, may_be_null, is_asked_for)
        return found

    return {name: fields(name) for name in structs}


def of_github(version, path):
    document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    cut = Cut(document, document["components"]["schemas"], {})
    source = {"description": "@octokit/openapi, generated/api.github.com.json", "version": version}
    return made(cut, source, GITHUB)


def of_gitea(forge, version, path, structs):
    # The description is a template of a text in JSON.
    document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    cut = Cut(document, document["definitions"], facts_of(structs))
    source = {
        "description": f"{forge}, templates/swagger/v1_json.tmpl and modules/structs",
        "version": version,
    }
    return made(cut, source, GITEA)


def written(cut):
    """The text of a file: a line for each route and each definition, so that a change shows what it changes."""
    lines = [f' "source": {json.dumps(cut["source"])}']
    for part in ("routes", "definitions"):
        members = (f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in cut[part].items())
        lines.append(f' "{part}": {{\n' + ",\n".join(members) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}"


def main(arguments):
    match arguments:
        case ["github", version, path]:
            cut = of_github(version, path)
        case [("gitea" | "forgejo") as forge, version, path, structs]:
            cut = of_gitea(forge, version, path, structs)
        case _:
            sys.exit(__doc__)
    print(written(cut))


if __name__ == "__main__":
    main(sys.argv[1:])
