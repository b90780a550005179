//! Which certificates a port and a client accept, and the identity of a client certificate.

use crate::tls::sample::{NAME, TOKEN, client, name_of, refusal, serve};
use anyhow::Result;
use surety_common::tls::{Tls, TlsFiles};
use surety_e2e::authority::{Authority, EXPIRED, VALID, transport};
use tonic::Code;

#[tokio::test]
async fn a_client_calls_only_a_port_whose_authority_it_trusts() -> Result<()> {
    let (ours, other) = (Authority::new()?, Authority::new()?);
    ours.issue("port", "127.0.0.1", VALID)?;
    let url = serve(Tls::load(ours.files("port"))?).await?;
    assert_eq!(name_of(client(&url, &ours.client()?, Some(TOKEN))?).await?, NAME);
    let refused = refusal(client(&url, &ours.client()?, Some("wrong"))?).await;
    assert_eq!(refused.code(), Code::Unauthenticated);
    let refused = refusal(client(&url, &other.client()?, Some(TOKEN))?).await;
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    for part in ["TLS handshake", "127.0.0.1", "UnknownIssuer"] {
        assert!(format!("{refused:?}").contains(part), "{refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_port_with_tls_answers_no_call_without_it() -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    let url = serve(Tls::load(ours.files("port"))?).await?;
    let plain = url.replace("https://", "http://");
    let refused = refusal(client(&plain, &ours.client()?, Some(TOKEN))?).await;
    assert_ne!(refused.code(), Code::Unauthenticated, "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn an_expired_certificate_and_one_for_another_name_are_refused() -> Result<()> {
    let ours = Authority::new()?;
    let cases = [
        ("old", "127.0.0.1", EXPIRED, "xpired"),
        ("other", "elsewhere.test", VALID, "not valid for name"),
    ];
    for (name, host, year, reason) in cases {
        ours.issue(name, host, year)?;
        let url = serve(Tls::load(ours.files(name))?).await?;
        let refused = refusal(client(&url, &ours.client()?, Some(TOKEN))?).await;
        assert_eq!(refused.code(), Code::Unavailable, "{name}: {refused:?}");
        assert!(format!("{refused:?}").contains(reason), "{name}: {refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_client_certificate_is_an_identity_by_its_subject_or_an_alternative_name() -> Result<()> {
    let (ours, other) = (Authority::new()?, Authority::new()?);
    ours.issue("port", "127.0.0.1", VALID)?;
    for name in ["alice", "bob", "stranger"] {
        ours.issue(name, &format!("{name}.test"), VALID)?;
    }
    ours.issue("expired", "alice.test", EXPIRED)?;
    other.issue("alice", "alice.test", VALID)?;
    let map = "# name   identity\ndns:alice.test alice viewer *\ncn:bob robert viewer *\n";
    let files = TlsFiles {
        client_ca: Some(ours.path("ca.pem")),
        identities: Some(ours.write("identities", map)?),
        ..ours.files("port")
    };
    let url = serve(Tls::load(files)?).await?;
    let call = |name: &str, token| client(&url, &ours.client_as(name)?, token);
    assert_eq!(name_of(call("alice", None)?).await?, "alice");
    assert_eq!(name_of(call("bob", None)?).await?, "robert");
    let alice = ours.client_as("alice")?;
    for connection in ["a full handshake", "a resumed session"] {
        assert_eq!(name_of(client(&url, &alice, None)?).await?, "alice", "{connection}");
    }
    assert_eq!(name_of(call("alice", Some(TOKEN))?).await?, NAME, "a token has precedence");
    assert_eq!(name_of(client(&url, &ours.client()?, Some(TOKEN))?).await?, NAME);
    let refused = refusal(call("alice", Some("wrong"))?).await;
    assert_eq!(refused.code(), Code::Unauthenticated, "an invalid token is not ignored");
    let refused = refusal(call("stranger", None)?).await;
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("SURETY_TLS_IDENTITIES_FILE"), "{refused:?}");
    assert_eq!(refusal(client(&url, &ours.client()?, None)?).await.code(), Code::Unauthenticated);
    // The same name from an authority that the port does not trust, and an expired certificate: the
    // port ends the connection.
    let forged = TlsFiles { ca: Some(ours.path("ca.pem")), ..other.files("alice") };
    for transport in [transport(forged)?, ours.client_as("expired")?] {
        let refused = refusal(client(&url, &transport, Some(TOKEN))?).await;
        assert_ne!(refused.code(), Code::Unauthenticated, "{refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused_where_one_is_required() -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    ours.issue("alice", "alice.test", VALID)?;
    let files = TlsFiles {
        client_ca: Some(ours.path("ca.pem")),
        require_client_certificate: true,
        ..ours.files("port")
    };
    let url = serve(Tls::load(files)?).await?;
    assert_eq!(name_of(client(&url, &ours.client_as("alice")?, Some(TOKEN))?).await?, NAME);
    let refused = refusal(client(&url, &ours.client()?, Some(TOKEN))?).await;
    assert_ne!(refused.code(), Code::Unauthenticated, "{refused:?}");
    Ok(())
}
