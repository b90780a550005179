//! Signatures, kinds of bodies, repetitions, and what becomes of each delivery.

use super::sender::{Intake, assigned};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use surety_common::domain::toolchain::MAX_DELIVERY;
use surety_common::wire::status::from_status;
use surety_common::wire::v1::{self, DeliveryState};
use surety_e2e::harness::Database;
use surety_e2e::toolchain::delivery::{
    Answer, NEW, OLD, Sent, answer_of, exchange, new_id, signature,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const UNSIGNED: [(&str, &str); 1] = [("SURETY_UNSIGNED_HOOKS", "true")];

fn form(payload: &[u8]) -> Vec<u8> {
    let escaped: String = payload.iter().map(|byte| format!("%{byte:02X}")).collect();
    format!("payload={escaped}").into_bytes()
}

#[tokio::test]
async fn only_signed_deliveries_of_known_hooks_are_stored() -> Result<()> {
    let database = Database::create().await?;
    let intake = Intake::start(&database, &[]).await?;
    intake.put("main", v1::Forge::Gitea, &["old", "new"]).await?;
    intake.put("hub", v1::Forge::Github, &["new"]).await?;
    intake.put("open", v1::Forge::Gitea, &[]).await?;
    let body = assigned(1);
    let good = Sent::gitea(&new_id(), "issues", &body, NEW);
    let hub = signature(NEW, &body);
    let large = vec![b' '; MAX_DELIVERY + 1];
    for (sent, status, code) in [
        (
            good.clone().with("x-gitea-signature", &signature("other", &body)),
            401,
            "signature_invalid",
        ),
        (good.clone().with("x-gitea-signature", ""), 401, "signature_invalid"),
        (good.clone().with("x-gitea-signature", "0a"), 401, "signature_invalid"),
        // The path decides the forge: GitHub's header does not sign a delivery of Gitea.
        (
            good.clone()
                .with("x-gitea-signature", "")
                .with("x-hub-signature-256", &format!("sha256={hub}")),
            401,
            "signature_invalid",
        ),
        (good.clone().to("/webhooks/gitea/none"), 404, "hook_not_found"),
        (good.clone().to("/webhooks/github/main"), 404, "hook_not_found"),
        (good.clone().to("/webhooks/gitlab/main"), 404, "hook_not_found"),
        (good.clone().to("/webhooks/gitea/open"), 403, "hook_unsigned"),
        (good.clone().with("content-type", "text/plain"), 415, "media_type_unsupported"),
        (Sent::gitea(&new_id(), "issues", &large, OLD), 413, "message_too_large"),
    ] {
        let answer = intake.send(&sent).await?;
        assert_eq!(answer.code(), (status, code), "{} {answer:?}", sent.path);
    }
    ensure!(intake.deliveries().await?.is_empty(), "a refused delivery was stored");
    let metrics = intake.planner.get("/metrics").await?;
    let counted = r#"surety_deliveries_total{forge="gitea",result="signature_invalid"} 4"#;
    ensure!(metrics.contains(counted), "{metrics}");

    for secret in [OLD, NEW] {
        let answer = intake.send(&Sent::gitea(&new_id(), "push", b"{}", secret)).await?;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    // The old secret is taken out: what it signs is refused at once.
    intake.put("main", v1::Forge::Gitea, &["new"]).await?;
    let answer = intake.send(&Sent::gitea(&new_id(), "push", b"{}", OLD)).await?;
    assert_eq!(answer.code(), (401, "signature_invalid"));
    refuses_secrets_that_are_not_listed(&intake).await?;
    intake.toolchain()?.delete_hook(v1::DeleteHookRequest { name: "main".to_owned() }).await?;
    assert_eq!(intake.send(&good).await?.code(), (404, "hook_not_found"));
    let no_text = Sent::gitea(&new_id(), "push", b"{}", NEW).to("/webhooks/gitea/%ff");
    assert_eq!(intake.send(&no_text).await?.code(), (404, "hook_not_found"));

    let open = Intake::start(&database, &UNSIGNED).await?;
    let unsigned = Sent::gitea(&new_id(), "push", b"{}", OLD).with("x-gitea-signature", "");
    let unsigned = unsigned.to("/webhooks/gitea/open");
    // The second planner reads the hooks when it starts.
    open.send_until(&unsigned, |answer| answer.status == 202).await?;
    database.drop().await
}

async fn refuses_secrets_that_are_not_listed(intake: &Intake) -> Result<()> {
    for secret in ["none", "other"] {
        let refused = intake.put("bad", v1::Forge::Gitea, &[secret]).await;
        let refused = refused.err().context("it was stored")?;
        let status = refused.downcast_ref::<tonic::Status>().context("no status")?;
        assert_eq!(from_status(status).reason.as_str(), "hook_secret_unknown");
    }
    Ok(())
}

/// Sends in chunks: no length is announced.
async fn send_chunked(address: &str, sent: &Sent<'_>) -> Result<Answer> {
    let head = sent.head(0).replace("content-length: 0", "transfer-encoding: chunked");
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    for chunk in sent.body.chunks(64 * 1024) {
        let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
        if stream.write_all(&framed).await.is_err() {
            break;
        }
    }
    stream.write_all(b"0\r\n\r\n").await.ok();
    answer_of(&mut stream).await
}

#[tokio::test]
async fn each_delivery_is_stored_once_and_becomes_what_its_content_says() -> Result<()> {
    let database = Database::create().await?;
    let intake = Intake::start(&database, &[]).await?;
    intake.put("main", v1::Forge::Gitea, &["old"]).await?;
    let address = intake.planner.address().to_owned();
    let (first, body) = (new_id(), assigned(1));
    let task = Sent::gitea(&first, "issues", &body, OLD);
    assert_eq!(intake.send(&task).await?.body["state"], "stored");
    // The same id again, over both planners of the database.
    let other = Intake::start(&database, &[]).await?;
    other.send_until(&task, |answer| answer.body["state"] == "repeated").await?;
    assert_eq!(intake.send(&task).await?.body["state"], "repeated");
    let asked = form(&assigned(2));
    let mut expected = BTreeMap::from([(first.clone(), (DeliveryState::Processed, ""))]);
    let json = "application/json";
    let form_type = "application/x-www-form-urlencoded";
    let mut send = async |event: &str, body: &[u8], kind: &str, end| -> Result<()> {
        let id = new_id();
        let sent = Sent::gitea(&id, event, body, OLD).with("content-type", kind);
        let answer = intake.send(&sent).await?;
        ensure!(answer.status == 202, "{event}: {answer:?}");
        expected.insert(id, end);
        Ok(())
    };
    use DeliveryState::{Ignored, Processed, Refused, Repeated};
    send("issues", &asked, form_type, (Processed, "")).await?;
    // The same content under a new id, as Gitea delivers again.
    send("issues", &body, json, (Repeated, "same_content")).await?;
    send("star", b"{}", json, (Ignored, "event_unknown")).await?;
    let taken = String::from_utf8(assigned(3))?.replace("\"assigned\"", "\"unassigned\"");
    send("issues", taken.as_bytes(), json, (Ignored, "unassigned")).await?;
    send("issues", b"{\"action\":\"assigned\"", json, (Refused, "json_syntax")).await?;
    send("issues", b"", json, (Refused, "json_syntax")).await?;
    send("issues", &[0xff, 0xfe], json, (Refused, "json_syntax")).await?;
    send("issues", b"a=b", form_type, (Refused, "field_missing")).await?;
    send("issues", b"[]", json, (Refused, "type_mismatch")).await?;
    send("issues", "[".repeat(100_000).as_bytes(), json, (Refused, "json_syntax")).await?;
    send("", b"{}", json, (Refused, "field_missing")).await?;
    let large =
        [b"{\"action\":\"assigned\",\"x\":\"".as_slice(), &vec![b'x'; 1 << 20], b"\"}"].concat();
    send("issues", &large, json, (Refused, "field_missing")).await?;

    // A body that ends early is nothing, and neither is one that is too large in chunks.
    let mut cut = TcpStream::connect(&address).await?;
    cut.write_all(task.head(body.len() + 10).as_bytes()).await?;
    cut.write_all(&body).await?;
    drop(cut);
    let huge = Sent::gitea(&new_id(), "issues", &vec![b' '; MAX_DELIVERY + 1], OLD);
    assert_eq!(send_chunked(&address, &huge).await?.code(), (413, "message_too_large"));
    let chunked = new_id();
    let answer = send_chunked(&address, &Sent::gitea(&chunked, "star", b"{}", OLD)).await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    // The content of the star is there already.
    expected.insert(chunked, (Repeated, "same_content"));

    let found = intake.processed().await?;
    let ends: BTreeMap<String, (DeliveryState, &str)> = found
        .iter()
        .map(|one| (one.forge_delivery_id.clone(), (one.state(), one.reason.as_str())))
        .collect();
    assert_eq!(ends, expected);
    let processed = found.iter().filter(|one| one.state() == Processed);
    ensure!(processed.clone().all(|one| one.run_ids.len() == 1), "{found:#?}");
    shows_and_replays(&intake, &found, &first, &body).await?;
    let answer =
        exchange(&address, b"BREW /pot HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
    assert_eq!(answer.status, 404);
    database.drop().await
}

/// A delivery is shown as it was signed, without what is secret, and a replay makes no second task.
async fn shows_and_replays(
    intake: &Intake,
    found: &[v1::Delivery],
    forge_id: &str,
    body: &[u8],
) -> Result<()> {
    let first = found.iter().find(|one| one.forge_delivery_id == forge_id).context("a delivery")?;
    let request = v1::GetDeliveryRequest { delivery_id: first.id.clone() };
    let shown = intake.toolchain()?.get_delivery(request.clone()).await?.into_inner();
    assert_eq!(shown.body, body);
    for secret in ["signature", "authorization", OLD] {
        ensure!(!shown.headers_json.contains(secret), "{}", shown.headers_json);
    }
    let replay = v1::ReplayDeliveryRequest { delivery_id: first.id.clone() };
    intake.toolchain()?.replay_delivery(replay).await?;
    let again = intake.processed().await?;
    let again = again.iter().find(|one| one.id == first.id).context("the delivery")?;
    assert_eq!((again.replays, &again.run_ids), (1, &first.run_ids));
    Ok(())
}
