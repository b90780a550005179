//! Every failure of a forge, and what it is called.

use super::{Fixture, KINDS, code, credential, quick};
use anyhow::{Context, Result};
use chrono::Utc;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::Forge as ForgeKind;
use surety_e2e::forge::Failure;
use surety_forge::{Forge, ForgeAccount, ForgeErrorCode};

#[tokio::test]
async fn every_failure_has_its_code_and_reads_are_tried_again() -> Result<()> {
    for kind in KINDS {
        let fixture = Fixture::start(kind).await?;
        let forge = fixture.patient("robin")?;
        for (failure, expected, attempts) in [
            (Failure::Cut, ForgeErrorCode::Unreachable, 3),
            (Failure::CutAfterWrite, ForgeErrorCode::Unreachable, 3),
            (Failure::Status(500), ForgeErrorCode::Unreachable, 3),
            (Failure::Status(502), ForgeErrorCode::Unreachable, 3),
            (Failure::Status(400), ForgeErrorCode::Unprocessable, 1),
            (Failure::Status(401), ForgeErrorCode::Unauthorized, 1),
            (Failure::Status(403), ForgeErrorCode::Forbidden, 1),
            (Failure::Status(404), ForgeErrorCode::NotFound, 1),
            (Failure::Status(409), ForgeErrorCode::Conflict, 1),
            (Failure::Status(422), ForgeErrorCode::Unprocessable, 1),
            (Failure::Status(301), ForgeErrorCode::BadAnswer, 1),
            (Failure::Page, ForgeErrorCode::BadAnswer, 1),
            (Failure::Shape, ForgeErrorCode::BadAnswer, 1),
            (Failure::Large(9 << 20), ForgeErrorCode::TooLarge, 1),
        ] {
            let before = fixture.arrived("pull");
            fixture.double.fail("pull", failure.clone(), (0, 3));
            let failed = forge.pull(&fixture.repo, fixture.pull).await;
            assert_eq!(code(failed), expected, "{failure:?}");
            assert_eq!(fixture.arrived("pull") - before, attempts, "{failure:?}");
            fixture.double.heal();
            let reported = fixture.reported();
            assert_eq!(reported.last().map(|(_, result, _)| *result), Some(expected.as_str()));
        }
        fixture.double.fail("pull", Failure::Status(503), (0, 2));
        assert_eq!(forge.pull(&fixture.repo, fixture.pull).await?.number, fixture.pull);
    }
    Ok(())
}

#[tokio::test]
async fn a_slow_forge_is_given_up() -> Result<()> {
    let fixture = Fixture::start(ForgeKind::Gitea).await?;
    fixture.double.fail("pull", Failure::Slow(Duration::from_secs(20)), (0, 3));
    let began = Instant::now();
    let failed = fixture.client("robin")?.pull(&fixture.repo, fixture.pull).await;
    assert_eq!(code(failed), ForgeErrorCode::Unreachable);
    assert!(began.elapsed() < 5 * quick().attempt, "{:?}", began.elapsed());
    Ok(())
}

#[tokio::test]
async fn no_forge_at_the_address_is_unreachable() -> Result<()> {
    let fixture = Fixture::start(ForgeKind::Gitea).await?;
    let closed = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let account =
        ForgeAccount { url: format!("http://{closed}"), ..fixture.account("robin", None)? };
    let forge = fixture.clients.open(account)?;
    let failed = forge.pull(&fixture.repo, 1).await.err().context("a failure")?;
    assert_eq!((failed.code, failed.is_unsure), (ForgeErrorCode::Unreachable, false));
    let failed = forge.add_comment(&fixture.repo, 1, "x").await.err().context("a failure")?;
    assert!(!failed.is_unsure, "no connection was made: {failed}");
    Ok(())
}

#[tokio::test]
async fn a_rate_limit_names_its_end_and_the_forge_is_left_alone_until_then() -> Result<()> {
    for failure in [Failure::Limited(90), Failure::Secondary(90)] {
        let fixture = Fixture::start(ForgeKind::Github).await?;
        let forge = fixture.fresh("robin")?;
        fixture.double.fail("pull", failure, (0, 1));
        let failed = forge.pull(&fixture.repo, fixture.pull).await.err().context("a failure")?;
        assert_eq!(failed.code, ForgeErrorCode::RateLimited);
        let left = (failed.until.context("an end")? - Utc::now()).num_seconds();
        assert!((80..=90).contains(&left), "{left}");
        let arrived = fixture.double.calls().len();
        assert_eq!(code(forge.issue(&fixture.repo, 1).await), ForgeErrorCode::RateLimited);
        assert_eq!(fixture.double.calls().len(), arrived);
        // Another account has a limit of its own.
        assert_eq!(fixture.fresh("alice")?.current_user().await?, "alice");
    }
    let fixture = Fixture::start(ForgeKind::Github).await?;
    fixture.double.fail("pull", Failure::Secondary(1), (0, 1));
    let pull = fixture.fresh("robin")?.pull(&fixture.repo, fixture.pull).await?;
    assert_eq!(pull.number, fixture.pull);
    Ok(())
}

#[tokio::test]
async fn a_credential_is_read_at_each_call_and_shown_nowhere() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        let folder = tempfile::tempdir()?;
        let canary = "c4nary-of-a-credential";
        let path = credential(folder.path(), canary)?;
        let account =
            ForgeAccount { credential_file: path.clone(), ..fixture.account("robin", None)? };
        let shown = format!("{account:?}");
        let forge = fixture.clients.open(account)?;
        // The forge repeats the wrong token in its message.
        let failed = forge.pull(&fixture.repo, fixture.pull).await.err().context("a failure")?;
        assert_eq!(failed.code, ForgeErrorCode::Unauthorized);
        for text in [failed.to_string(), format!("{failed:?}"), shown] {
            assert!(!text.contains(canary), "{text}");
        }
        std::fs::write(&path, fixture.double.token("robin").context("a token")?)?;
        assert_eq!(forge.pull(&fixture.repo, fixture.pull).await?.number, fixture.pull);
        std::fs::remove_file(&path)?;
        let failed = forge.pull(&fixture.repo, fixture.pull).await;
        assert_eq!(code(failed), ForgeErrorCode::CredentialUnreadable);
    }
    Ok(())
}

#[tokio::test]
async fn a_write_is_never_sent_twice() -> Result<()> {
    let fixture = Fixture::start(ForgeKind::Gitea).await?;
    let forge: &dyn Forge = &*fixture.client("alice")?;
    for failure in [Failure::Status(503), Failure::Cut, Failure::CutAfterWrite] {
        let before = fixture.arrived("add_comment");
        fixture.double.fail("add_comment", failure.clone(), (0, 1));
        let failed = forge.add_comment(&fixture.repo, fixture.pull, "Once.").await;
        let failed = failed.err().context("a failure")?;
        assert!(failed.is_unsure, "{failure:?}: {failed}");
        assert_eq!(fixture.arrived("add_comment") - before, 1);
    }
    Ok(())
}
