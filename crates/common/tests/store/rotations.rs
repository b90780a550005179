//! What is decided before a rotation and stored after it.

use crate::signatures::{all_keys, check, verdict, worked, write};
use crate::support::{change, graph, now, order, spec, until};
use chrono::Utc;
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::domain::signature::{Service, SignatureStatus, TrustedKeys};
use surety_common::keys::{KeyFile, read_trusted_keys, rotate_key, trust_key};
use surety_common::store::{CurrentKey, Outcome, Signing};

#[sqlx::test(migrations = "./migrations")]
async fn a_verdict_that_is_stored_after_a_rotation_is_signed_by_the_key_of_its_time(pool: PgPool) {
    let folder = tempfile::tempdir().unwrap();
    let (path, trusted) = (folder.path().join("gate.pem"), folder.path().join("trusted.json"));
    let file = Arc::new(KeyFile::open_or_make(&path).unwrap());
    let old = file.public();
    trust_key(&trusted, (Service::Gate, old), now()).unwrap();
    let new = order(spec(1), 1, spec(1).created_at);
    let digest = new.plan.as_ref().unwrap().digest.clone();
    let row = worked(&pool, new).await;
    // Decided long before the new key became valid.
    let decision = change(&row, |draft| {
        draft.record_verdict(verdict(&row, &digest));
        draft.accept(&graph(1))
    });
    rotate_key(&trusted, (Service::Gate, &path), Utc::now()).unwrap();
    until(|| async { file.public() != old }).await;
    let signing = Signing::of(Service::Gate, Arc::clone(&file) as Arc<dyn CurrentKey>);
    assert_eq!(write(&pool, signing, decision).await.unwrap(), Outcome::Applied);
    let keys = [all_keys().keys(), read_trusted_keys(&trusted).unwrap().keys()].concat();
    let report = check(&pool, row.run_id, &TrustedKeys::new(keys)).await;
    assert_eq!(report.status, SignatureStatus::Signed, "{report:#?}");
}
