//! The HTTP paths of every service, on its only port.

use crate::store;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use std::time::Duration;
use tokio::time::timeout;

/// How long the database may take for an answer: probes of Kubernetes wait for 1 s.
const PING: Duration = Duration::from_millis(800);

/// `/healthz` for load balancers, `/metrics` for Prometheus. A service without a pool runs in stateless mode.
pub fn operations(metrics: Option<PrometheusHandle>, pool: Option<PgPool>) -> Router {
    let healthz = move || {
        let pool = pool.clone();
        async move {
            let Some(pool) = pool else {
                return (StatusCode::OK, "ok, stateless mode: no database is set\n");
            };
            match timeout(PING, store::ping(&pool)).await {
                Ok(Ok(())) => (StatusCode::OK, "ok\n"),
                Ok(Err(_)) | Err(_) => {
                    (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n")
                }
            }
        }
    };
    let router = Router::new().route("/healthz", get(healthz));
    match metrics {
        Some(metrics) => {
            router.route("/metrics", get(move || std::future::ready(metrics.render())))
        }
        None => router,
    }
}
