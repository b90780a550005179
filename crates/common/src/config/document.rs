//! The documentation page of the settings.

use std::fmt::Write;

use super::settings::{Accepts, Group, Setting, settings};

const INTRODUCTION: &str = "\
# Configuration

Use this page to find the flag, the variable and the limits of each setting. The flag wins over the variable. `surety up` takes the \
settings of all three services. `surety config check` prints the effective values and the source \
of each, without secrets.

This page is generated from the table in `crates/common/src/config/settings.rs`. After a change \
there, run `UPDATE_DOCS=1 cargo test -p surety-common --test pages`.
";

const PACKAGES: &str = "
## Packages for Python and TypeScript

The packages ([clients.md](clients.md)) read `SURETY_URL`, `SURETY_DATA_DIR`, `SURETY_TOKEN_FILE`, `SURETY_PLAINTEXT_PEERS`, \
`SURETY_TLS_CA_FILE`, `SURETY_TLS_CERT_FILE` and `SURETY_TLS_KEY_FILE` as the command line does, and these:

| variable | default | accepts | meaning | secret |
|---|---|---|---|---|
| `SURETY_EXECUTOR_URL` | `http://127.0.0.1:7402` | a URL that begins with http:// or https://, or host:port | The executor that \
drivers and tool workers call. | no |
| `SURETY_TOKEN` | none | a token | The token to show; it wins over `SURETY_TOKEN_FILE`. | yes |
";

const POLICIES: &str = "
## Policies

What is asked of a run is no setting of a process: it stands in the `policy` of a request, of a plan file or of a checks file, \
and in the policy of a namespace (`surety policy set`), which a request can only tighten.

| key | where | accepts | meaning |
|---|---|---|---|
| `canary` | run, checks file | `auto` (default), `always`, `never` | When a check that holds runs once more with failing tests ([trust.md](trust.md#the-canary)). |
| `overlay` | a check of a plan, of a step, of a checks file, or of a namespace | paths, each with a text, `{hex: DIGITS}` or `{file: PATH}` | The files of a hidden check ([trust.md](trust.md#hidden-checks)). |
| `in_doubt` | run, checks file, namespace | `refuse` (default), `ask`, `allow` | What is done with cautions that a person may accept ([trust.md](trust.md#cautions)). |
| `refuse_on` | run, checks file, namespace | codes of cautions | Cautions that refuse beside those that do by default. |
| `protect`, `may_change` | run, checks file; `protect` and `may_change_within` of a namespace | globs | Which files are check inputs ([check-inputs.md](check-inputs.md)). |
";

/// `docs/configuration.md`, generated.
#[must_use]
pub fn document() -> String {
    let mut page = INTRODUCTION.to_owned();
    for group in
        [Group::Common, Group::Planner, Group::Executor, Group::Gate, Group::Model, Group::Client]
    {
        page.push_str(&section(group));
    }
    page.push_str(PACKAGES);
    page.push_str(POLICIES);
    page
}

fn section(group: Group) -> String {
    let mut text = format!(
        "\n## {group}\n\n| flag | variable | default | accepts | meaning | secret |\n\
         |---|---|---|---|---|---|\n"
    );
    for setting in settings().iter().filter(|setting| setting.group == group) {
        text.push_str(&row(setting));
    }
    text
}

fn row(setting: &Setting) -> String {
    let default = match setting.default {
        "" => "none".to_owned(),
        value => format!("`{value}`"),
    };
    let mut row = format!("| `--{}` | `{}` | {default} ", setting.flag, setting.env);
    let secret = if setting.secret { "yes" } else { "no" };
    // Writing to a String cannot fail, so there is no error to return.
    let mut accepts = setting.accepts.to_string();
    if matches!(setting.accepts, Accepts::Switch) {
        accepts.push_str(" in the variable; the flag takes no value");
    }
    write!(row, "| {accepts} | {} | {secret} |", setting.meaning).unwrap_or_default();
    row.push('\n');
    row
}
