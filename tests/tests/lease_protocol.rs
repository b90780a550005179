//! Real executors over a real Postgres, whose every write of a run's row is laid beside the model.

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use sqlx::PgPool;
use surety_common::store;
use surety_e2e::harness::{Database, Deployment, wait_until};
use surety_e2e::script::{Trail, noop, plan, shell, step};
use surety_lease_model::EFFECT;
use surety_lease_model::protocol::Protocol;
use surety_lease_model::state::{Author, Content, Step};
use surety_lease_model::trace::{Sight, Unknown, follow};
use uuid::Uuid;

/// An executor counts as dead after two seconds of silence, and drains at once.
const QUICK: [(&str, &str); 3] = [
    ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
    ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
    ("SURETY_DRAIN_TIMEOUT_MS", "100"),
];

/// Records every change of a row in a table of this test.
const TRACKER: &str = "
    create table tracked (
        place bigserial, run_id uuid, old_sequence bigint, sequence bigint, version bigint,
        epoch bigint, owner uuid, steps text, progress text, blocked bool, ended bool);
    create function track() returns trigger language plpgsql as $$
    begin
        insert into tracked
            (run_id, old_sequence, sequence, version, epoch, owner, steps, progress, blocked, ended)
        values
            (new.run_id, old.sequence, new.sequence, new.version, new.lease_epoch, new.lease_owner,
             new.step_states, new.progress::text, new.state = 'BLOCKED', new.terminal is not null);
        return null;
    end $$;
    create trigger tracked after update on execution for each row execute function track();";

/// What was written down of a run, with the writers that its journal names.
const TRACKED: &str = "
    select version, epoch, owner, steps, progress, blocked, ended, journal.actor
    from tracked
    left join journal on journal.run_id = tracked.run_id and journal.sequence = tracked.sequence
        and tracked.sequence <> tracked.old_sequence
    where tracked.run_id = $1
    order by place";

#[derive(sqlx::FromRow)]
struct Tracked {
    version: i64,
    epoch: i64,
    owner: Option<Uuid>,
    steps: String,
    progress: String,
    blocked: bool,
    ended: bool,
    actor: Option<String>,
}

impl Tracked {
    /// The row as the model would have it. Executors are numbered as they come.
    fn sight(&self, executors: &mut Vec<Uuid>) -> Result<Sight> {
        if let Some(owner) = self.owner
            && !executors.contains(&owner)
        {
            executors.push(owner);
        }
        let place = |id: Uuid| executors.iter().position(|known| *known == id);
        let by = self.actor.as_deref().map(|actor| match actor.strip_prefix("executor/") {
            Some(id) => Uuid::parse_str(id).ok().and_then(place).map(Author::Executor),
            None => Some(Author::Outside),
        });
        let step = self.steps.chars().filter(|letter| *letter == 'd').count();
        let progress: Value = serde_json::from_str(&self.progress)?;
        let present = &progress["steps"][step.to_string()];
        Ok(Sight {
            version: u8::try_from(self.version)?,
            epoch: u8::try_from(self.epoch)?,
            by: by.map(|by| by.context("a writer that never held the run")).transpose()?,
            owner: self.owner.and_then(place),
            content: Content {
                step,
                open: !present["open_call"].is_null(),
                may_repeat: present["answer"] == "repeat",
                asks: self.blocked,
                ended: self.ended,
            },
        })
    }
}

async fn trace(pool: &PgPool, run_id: &str) -> Result<Vec<Sight>> {
    let tracked: Vec<Tracked> =
        sqlx::query_as(TRACKED).bind(Uuid::parse_str(run_id)?).fetch_all(pool).await?;
    let mut executors = Vec::new();
    tracked.iter().map(|tracked| tracked.sight(&mut executors)).collect()
}

/// The world that the traced runs are in: a turn, an effect, a turn, the gate.
fn world() -> Protocol {
    let plan = [Step::Look, EFFECT, Step::Look, Step::Verdict];
    Protocol { mishaps: 1, cancels: 0, ..Protocol::new(&plan) }
}

/// Sends a signal to the executor of a run during its effect. Another executor, which asks about
/// the effect, brings the run to its end.
async fn change_hands(signal: Signal) -> Result<Vec<Sight>> {
    let trail = Trail::new()?;
    let database = Database::create().await?;
    let pool = database.pool().await?;
    store::migrate(&pool).await?;
    sqlx::raw_sql(TRACKER).execute(&pool).await?;
    let mut deployment = Deployment::start_idle(database, &QUICK).await?;
    deployment.add_executor(&[]).await?;
    let steps = [
        step("before", &[], &[noop()]),
        step("effect", &["before"], &[shell(&trail.mark_and_wait("effect"))]),
        step("after", &["effect"], &[noop()]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("effect") == 1).await?;
    deployment.first_executor()?.signal(signal)?;
    deployment.add_executor(&[]).await?;
    let blocked = deployment.question(&run.id).await?;
    trail.let_go()?;
    if signal == Signal::SIGSTOP {
        // It wakes up with an outcome in its hands and a lease that is another's.
        deployment.first_executor()?.signal(Signal::SIGCONT)?;
    }
    deployment.answer(&blocked.wait_id, "repeat").await?;
    deployment.wait_for_end(&run.id).await?;
    assert_eq!(trail.marks("effect"), 2, "once, and once more for the answer");
    let trace = trace(&pool, &run.id).await?;
    pool.close().await;
    deployment.finish().await?;
    Ok(trace)
}

#[tokio::test]
async fn what_executors_do_that_are_killed_frozen_and_drained_is_known_to_the_model() -> Result<()>
{
    for signal in [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGTERM] {
        let trace = change_hands(signal).await?;
        println!("{signal}: {trace:#?}");
        let last = trace.last().context("something was written")?;
        assert!(last.epoch == 3 && last.content.ended, "{signal}: {trace:#?}");
        assert_eq!(follow(&world(), &trace), Ok(()), "{signal}: {trace:#?}");
        assert_late_writes_are_refused(&trace)?;
    }
    Ok(())
}

/// Puts into a real trace what its first holder would have written, had nothing kept it out.
fn assert_late_writes_are_refused(trace: &[Sight]) -> Result<()> {
    let taken = trace.iter().position(|seen| seen.epoch == 2).context("a second lease")?;
    let (mut forged, next) = (trace[..=taken].to_vec(), trace[taken]);
    let content = Content { step: next.content.step + 1, open: false, ..next.content };
    for epoch in [1, 2] {
        let (version, by) = (next.version + 1, Some(Author::Executor(0)));
        let late = Sight { version, epoch, by, owner: Some(0), content };
        forged.push(late);
        assert_eq!(follow(&world(), &forged), Err(Unknown { place: taken + 1, seen: late }));
        forged.pop();
    }
    Ok(())
}
