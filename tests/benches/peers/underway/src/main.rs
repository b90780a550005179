//! underway: a job of ten steps that do nothing.

#[path = "../../measure.rs"]
mod measure;

use anyhow::{Result, bail};
use measure::{Asked, ENDED, Runs, Work, measure, telling_ends, version_of};
use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgPoolOptions};
use underway::job::Context;
use underway::task::Result as TaskResult;
use underway::{Job, To};

const CONNECTIONS: u32 = 40;
const CONCURRENCY: usize = 16;
const IN_FLIGHT: usize = 250;

async fn step(_: Context<()>, Work { run, left }: Work) -> TaskResult<To<Work>> {
    if left > 1 { To::next(Work { run, left: left - 1 }) } else { Ok(To::Done) }
}

async fn last_step(_: Context<()>, _: Work) -> TaskResult<To<()>> {
    To::done()
}

async fn ten_steps(pool: &PgPool) -> Result<Job<Work, ()>> {
    let job = Job::builder()
        .step(step)
        .step(step)
        .step(step)
        .step(step)
        .step(step)
        .step(step)
        .step(step)
        .step(step)
        .step(step)
        .step(last_step);
    Ok(job.name("chain").pool(pool.clone()).build().await?)
}

async fn listen(pool: &PgPool, runs: &Runs) -> Result<()> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(ENDED).await?;
    loop {
        runs.end(listener.recv().await?.payload())?;
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let asked = Asked::read()?;
    let url = std::env::var("DATABASE_URL")?;
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?;
    underway::run_migrations(&pool).await?;
    let ends = telling_ends("underway.task", ("state", "succeeded"), "new.input -> 'step_input'");
    sqlx::raw_sql(&ends).execute(&pool).await?;

    // One to work and one to make runs with: a job begins runs at the step that it worked on last.
    let (working, making) = (ten_steps(&pool).await?, ten_steps(&pool).await?);
    let mut worker = working.worker();
    worker.set_concurrency_limit(CONCURRENCY);
    let working = tokio::spawn(async move { worker.run().await });
    let runs = Runs::default();
    let listening = tokio::spawn({
        let (pool, runs) = (pool.clone(), runs.clone());
        async move { listen(&pool, &runs).await }
    });
    let carry = async |steps| {
        let (work, ended) = runs.begin(steps);
        making.enqueue(&work).await?;
        Ok(ended.await?)
    };
    let version = version_of("underway", include_str!("../Cargo.lock"))?;
    tokio::select! {
        measured = measure(("underway", version), &asked, IN_FLIGHT, carry) => measured,
        stopped = working => bail!("the worker stopped: {stopped:?}"),
        stopped = listening => bail!("the listener stopped: {stopped:?}"),
    }
}
