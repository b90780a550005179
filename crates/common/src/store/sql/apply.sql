-- Writes many changes, each together with its journal row or not at all.
with change as (
    select * from unnest(
        $1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[],
        $7::smallint[], $8::timestamptz[], $9::uuid[], $10::bigint[], $11::integer[], $12::text[],
        $13::text[], $14::text[], $15::text[], $16::timestamptz[], $17::timestamptz[],
        $18::text[], $19::text[], $20::text[], $21::text[]
    ) as change (
        run_id, read_version, read_epoch, state, blocked_from, sequence,
        priority, ready_at, lease_owner, lease_epoch, plan_revision, step_states,
        progress, wait, terminal, deadline_at, at,
        span_id, entries, wait_ids, actor)
),
moved as (
    update execution
    set state = change.state,
        blocked_from = change.blocked_from,
        version = change.read_version + 1,
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
      -- Nobody wrote since this change was thought out.
      and execution.version = change.read_version
      -- The lease it was thought out under is still the latest: a frozen executor that wakes up
      -- after its runs were taken over names an earlier one.
      and execution.lease_epoch = change.read_epoch
    returning execution.run_id
),
written as (
    insert into journal (run_id, sequence, at, span_id, actor, entries)
    select change.run_id, change.sequence, change.at, change.span_id, change.actor,
           change.entries::json
    from change join moved on moved.run_id = change.run_id
    where change.entries <> '[]'
)
select run_id from moved
