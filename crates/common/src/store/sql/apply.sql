-- Writes chains of changes of many runs, each chain together with its journal row or not at all.
with change as (
    select * from unnest(
        $1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[],
        $8::smallint[], $9::timestamptz[], $10::uuid[], $11::bigint[], $12::integer[], $13::text[],
        $14::text[], $15::text[], $16::text[], $17::text[], $18::timestamptz[], $19::timestamptz[],
        $20::text[], $21::text[]
    ) as change (
        run_id, read_version, read_epoch, version, state, blocked_from, sequence,
        priority, ready_at, lease_owner, lease_epoch, plan_revision, step_states,
        progress, wait, wait_ids, terminal, deadline_at, at,
        entries, actor)
),
moved as (
    update execution
    set state = change.state,
        blocked_from = change.blocked_from,
        version = change.version,
        sequence = change.sequence,
        priority = change.priority,
        ready_at = change.ready_at,
        lease_owner = change.lease_owner,
        lease_epoch = change.lease_epoch,
        plan_revision = change.plan_revision,
        step_states = change.step_states,
        progress = change.progress::json,
        wait = change.wait::json,
        wait_ids = change.wait_ids::uuid[],
        terminal = change.terminal::json,
        deadline_at = change.deadline_at,
        updated_at = change.at
    from change
    where execution.run_id = change.run_id
      -- No other writer changed the row since the first of these changes was decided.
      and execution.version = change.read_version
      -- The lease of these changes is still the latest. A paused executor whose runs were taken
      -- over names an earlier one.
      and execution.lease_epoch = change.read_epoch
    returning execution.run_id, change.sequence, change.at, change.actor, change.entries
),
written as (
    insert into journal (run_id, sequence, at, actor, entries)
    select run_id, sequence, at, actor, entries
    from moved
    where entries <> ''
)
-- Notifies idle subscribers of a change that is written alone, with its commit.
select run_id,
       (select count(pg_notify(channel, text))
        from unnest($22::text[], $23::text[]) as notice (channel, text))
from moved
