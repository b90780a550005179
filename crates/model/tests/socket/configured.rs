//! Configurations: those that hold, and those that are named with what to do.

use super::Fixture;
use anyhow::Result;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surety_common::config::ModelConfig;
use surety_e2e::model_server::{ModelServer, Reply, Script, Settings};
use surety_model::{
    Api, Blame, Endpoints, MaxTokensField, ModelUse, ProfileError, Profiles, SchemaMode, Tokenizer,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-test-0123456789";

fn read(text: &str) -> Result<Profiles, ProfileError> {
    Profiles::read(text, Path::new("models.toml"))
}

fn file(folder: &TempDir, name: &str, text: &str, mode: u32) -> Result<PathBuf> {
    let path = folder.path().join(name);
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    Ok(path)
}

#[test]
fn a_file_has_profiles_uses_and_defaults() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let key = file(&folder, "key", &format!("{KEY}\n"), 0o600)?;
    let profiles = read(&format!(
        "[use]\nplan = \"strong\"\nstep = \"fast\"\nretry = \"strong\"\n\
         [model.fast]\nurl = \"http://127.0.0.1:8000/v1/\"\nmodel = \"qwen3\"\nstream = false\n\
         context_tokens = 32768\nmax_output_tokens = 4096\nschema = \"function\"\n\
         extra = {{ chat_template_kwargs = {{ enable_thinking = false }} }}\n\
         [model.strong]\napi = \"openai\"\nurl = \"https://api.openai.com/v1\"\nmodel = \"gpt-5\"\n\
         key_file = \"{}\"\nheaders = {{ X-Team = \"a\" }}\n",
        key.display()
    ))?;
    let fast = profiles.get(profiles.name_for(ModelUse::Step))?;
    assert_eq!((fast.url.as_str(), fast.stream), ("http://127.0.0.1:8000/v1", false));
    assert_eq!(fast.prompt_room(), Some(32768 - 4096));
    assert_eq!((fast.schema, fast.tokenizer), (SchemaMode::Function, Tokenizer::Bytes));
    assert_eq!(fast.extra["chat_template_kwargs"]["enable_thinking"], false);
    let strong = profiles.get(profiles.name_for(ModelUse::Plan))?;
    assert_eq!(profiles.name_for(ModelUse::Retry), "strong");
    assert_eq!(strong.key.as_ref().map(|key| key.expose()), Some(KEY));
    assert_eq!(strong.max_tokens_field, MaxTokensField::MaxCompletionTokens);
    assert_eq!(strong.headers["x-team"].expose(), "a");
    assert_eq!(strong.tokenizer, Tokenizer::O200k);
    Ok(())
}

#[test]
fn settings_make_or_change_the_profile_default() -> Result<()> {
    assert_eq!(Profiles::from_config(&ModelConfig::default())?, None);
    let config = ModelConfig {
        model_url: Some("http://localhost:1/v1".to_owned()),
        model_name: Some("m".to_owned()),
        model_api: "anthropic".to_owned(),
        ..ModelConfig::default()
    };
    let profiles = Profiles::from_config(&config)?.expect("profiles");
    let profile = profiles.get("default")?;
    assert_eq!((profile.api, profile.model.as_str()), (Api::Anthropic, "m"));
    for one in [ModelUse::Plan, ModelUse::Step, ModelUse::Retry] {
        assert_eq!(profiles.name_for(one), "default");
    }
    let folder = tempfile::tempdir()?;
    let text = "[model.default]\nurl = \"http://localhost:1/v1\"\nmodel = \"a\"\nretries = 7\n";
    let path = file(&folder, "models.toml", text, 0o644)?;
    let config = ModelConfig {
        model_profiles_file: Some(path),
        model_name: Some("b".to_owned()),
        model_api: "openai".to_owned(),
        ..ModelConfig::default()
    };
    let profiles = Profiles::from_config(&config)?.expect("profiles");
    let profile = profiles.get("default")?;
    assert_eq!((profile.model.as_str(), profile.retries), ("b", 7));
    Ok(())
}

#[test]
fn a_wrong_configuration_is_named_with_what_to_do() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let open = file(&folder, "open", KEY, 0o644)?;
    let empty = file(&folder, "empty", "\n", 0o600)?;
    let lines = file(&folder, "lines", "a\u{1}b", 0o600)?;
    let (url, model) = ("url = \"https://h/v1\"\n", "model = \"m\"\n");
    let good = format!("{url}{model}");
    let cases = [
        (model.to_owned(), vec!["url", "is missing", "SURETY_MODEL_URL"]),
        (url.to_owned(), vec!["model", "is missing", "SURETY_MODEL_NAME"]),
        (format!("url = \"h/v1\"\n{model}"), vec!["no scheme", "https://"]),
        (format!("url = \"https://u:p@h/v1\"\n{model}"), vec!["password", "key_file"]),
        (format!("url = \"https://h/v1?a=b\"\n{model}"), vec!["query"]),
        (format!("url = \"https://\"\n{model}"), vec!["does not read"]),
        (format!("url = \"https://h/v1/chat/completions\"\n{model}"), vec!["path of the call"]),
        (format!("{good}key_file = \"/no/such\"\n"), vec!["/no/such", "cannot be read", "Create"]),
        (format!("{good}key_file = {open:?}\n"), vec!["chmod 600"]),
        (format!("{good}key_file = {empty:?}\n"), vec!["empty"]),
        (format!("{good}key_file = {lines:?}\n"), vec!["one line of printable"]),
        (
            format!("{good}key_env = \"SURETY_TEST_NO_SUCH\"\n"),
            vec!["SURETY_TEST_NO_SUCH", "not set"],
        ),
        (format!("{good}headers = {{ api-key = \"x\" }}\n"), vec!["header_files"]),
        (format!("{good}headers = {{ \"a b\" = \"x\" }}\n"), vec!["no name of a header"]),
        (format!("{good}temperature = 3.0\n"), vec!["temperature", "0 to 2"]),
        (format!("{good}concurrency = 0\n"), vec!["concurrency", "from 1"]),
        (format!("{good}idle_timeout_ms = 0\n"), vec!["idle_timeout_ms"]),
        (format!("{good}context_tokens = 100\n"), vec!["context_tokens", "max_output_tokens"]),
        (format!("{good}colour = 1\n"), vec!["line 4", "colour"]),
        (format!("{good}api = \"gemini\"\n"), vec!["line 4", "anthropic"]),
        (format!("{good}[use]\nplan = \"strong\"\n"), vec!["no model profile \"strong\"", "fast"]),
        (format!("{good}[model.b]\n{good}"), vec!["[use]", "plan", "b, fast"]),
        (format!("{good}[price.m]\ninput = -1.0\noutput = 1.0\n"), vec!["price"]),
        (
            format!("{good}[price.gpt5]\ninput = 1.0\noutput = 1.0\n"),
            vec!["[price.\"gpt5\"]", "no profile", "are: m"],
        ),
        (format!("{good}["), vec!["line 4"]),
    ];
    for (text, words) in cases {
        let error = read(&format!("[model.fast]\n{text}")).expect_err(&text);
        let said = error.to_string();
        for word in words {
            assert!(said.contains(word), "{text}: {said}");
        }
        assert!(!said.contains(KEY) && !format!("{error:?}").contains(KEY), "{said}");
    }
    Ok(())
}

#[test]
fn a_profile_whose_context_has_no_room_for_the_rules_is_named_with_what_to_do() -> Result<()> {
    let begin = "The rules and the tools. ".repeat(480);
    let named = |settings: &str| -> Result<Vec<String>> {
        let text =
            format!("[model.fast]\nurl = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n{settings}");
        Ok(Endpoints::open(read(&text)?)?.without_room(&begin).into_values().collect())
    };
    let said = named("context_tokens = 16384\n")?;
    let [said] = &said[..] else { panic!("{said:?}") };
    for word in ["12016 tokens", "room for 8192", "[model.fast]", "max_output_tokens", "tokenizer"]
    {
        assert!(said.contains(word), "{said}");
    }
    for settings in [
        "",
        "context_tokens = 32768\n",
        "context_tokens = 16384\nmax_output_tokens = 2048\n",
        "context_tokens = 16384\ntokenizer = \"o200k_base\"\n",
    ] {
        assert!(named(settings)?.is_empty(), "{settings}");
    }
    Ok(())
}

#[test]
fn a_key_crosses_no_network_without_tls_unless_that_is_allowed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let key = file(&folder, "key", KEY, 0o600)?;
    for (url, more, holds) in [
        ("http://127.0.0.1:1/v1", "", true),
        ("http://localhost:1/v1", "", true),
        ("http://[::1]:1/v1", "", true),
        ("https://vllm.example/v1", "", true),
        ("http://vllm.example/v1", "", false),
        ("http://vllm.example/v1", "allow_plaintext = true\n", true),
    ] {
        let text =
            format!("[model.fast]\nurl = \"{url}\"\nmodel = \"m\"\nkey_file = {key:?}\n{more}");
        let found = read(&text).map_err(|error| error.to_string());
        assert_eq!(found.is_ok(), holds, "{url}: {found:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_start_names_a_wrong_key_an_unknown_model_and_an_endpoint_that_is_down() -> Result<()> {
    let settings = Settings {
        key: Some(KEY.to_owned()),
        models: vec!["qwen3:8b".to_owned(), "llama3:latest".to_owned()],
        ..Settings::default()
    };
    let server = ModelServer::start(settings, Script::list([])).await?;
    let folder = tempfile::tempdir()?;
    let right = file(&folder, "right", KEY, 0o600)?;
    let wrong = file(&folder, "wrong", "sk-wrong-0123456789", 0o600)?;
    let url = server.url();
    let mut text = "[use]\nplan = \"right\"\nstep = \"right\"\n".to_owned();
    for (name, url, model, key) in [
        ("right", url.as_str(), "qwen3:8b", &right),
        ("latest", url.as_str(), "llama3", &right),
        ("unknown", url.as_str(), "gpt-9", &right),
        ("refused", url.as_str(), "qwen3:8b", &wrong),
        ("down", "http://127.0.0.1:9/v1", "m", &right),
    ] {
        for api in ["openai", "anthropic"] {
            let exact = api == "anthropic" && name == "latest";
            if !exact {
                text.push_str(&format!(
                    "[model.{name}-{api}]\napi = \"{api}\"\nurl = \"{url}\"\nmodel = \"{model}\"\nkey_file = {key:?}\n"
                ));
            }
        }
    }
    let text = text.replace("= \"right\"", "= \"right-openai\"");
    let endpoints = Endpoints::open(read(&text)?)?;
    let wrong = endpoints.check(&CancellationToken::new()).await;
    let codes: Vec<_> =
        wrong.iter().map(|(name, it)| (name.as_str(), it.code(), it.blame())).collect();
    assert_eq!(
        codes,
        [
            ("down-anthropic", "model_unreachable", Blame::Endpoint),
            ("down-openai", "model_unreachable", Blame::Endpoint),
            ("refused-anthropic", "model_unauthorized", Blame::Configuration),
            ("refused-openai", "model_unauthorized", Blame::Configuration),
            ("unknown-anthropic", "model_unknown", Blame::Configuration),
            ("unknown-openai", "model_unknown", Blame::Configuration),
        ]
    );
    let said = wrong["unknown-openai"].to_string();
    assert!(said.contains("gpt-9") && said.contains("qwen3:8b"), "{said}");
    let error = endpoints.model("fastest").err().expect("an unknown profile");
    assert_eq!(error.code(), "model_profile_unknown");
    assert!(error.to_string().contains("[model.fastest]"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_list_its_models_is_told_apart_by_a_request() -> Result<()> {
    for api in [Api::OpenAi, Api::Anthropic] {
        let settings = Settings { lists_models: false, ..Settings::default() };
        let fixture = Fixture::start(settings, Script::list([]), |profile| {
            profile.api = api;
            profile.model = "other".to_owned();
        });
        let fixture = fixture.await?;
        fixture.model.probe(&CancellationToken::new()).await?;
        assert_eq!(fixture.ask().await.expect_err("a refusal").code(), "model_unknown");
    }
    Ok(())
}

#[tokio::test]
async fn profiles_of_one_address_share_its_breaker_and_others_do_not() -> Result<()> {
    let server =
        ModelServer::start(Settings::default(), Script::function(|_| Reply::status(503))).await?;
    let text = |name: &str, more: &str| {
        format!(
            "[model.{name}]\nurl = \"{}\"\nmodel = \"test-model\"\nretries = 0\nbreaker_failures = 1\n{more}",
            server.url()
        )
    };
    let text = format!(
        "[use]\nplan = \"a\"\nstep = \"b\"\n{}{}{}",
        text("a", ""),
        text("b", ""),
        text("c", "headers = { x-team = \"c\" }\n")
    );
    let endpoints = Endpoints::open(read(&text)?)?;
    let cancel = CancellationToken::new();
    let mut codes = Vec::new();
    for name in ["a", "b", "c"] {
        let model = endpoints.model(name)?;
        let error = model.reply(&super::request(), &mut |_| {}, &cancel).await.expect_err("503");
        codes.push(error.code());
    }
    assert_eq!(codes, ["model_overloaded", "model_circuit_open", "model_overloaded"]);
    Ok(())
}
