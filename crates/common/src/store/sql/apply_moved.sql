-- Writes chains of changes of many runs, each chain together with its journal row or not at all.
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
    returning execution.run_id, change.sequence, change.at, change.actor, change.entries,
              change.signature
),
written as (
    insert into journal (run_id, sequence, at, actor, entries, signature)
    select run_id, sequence, at, actor, entries, signature
    from moved
    where entries <> ''
)
