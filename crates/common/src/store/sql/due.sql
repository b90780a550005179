-- Runs that the clock or a free folder moves on, at most $3 of each cause, the earliest first; and deletes the locks
-- of runs that ended. One statement, because it is sent at rest too.
with ended as (
    delete from workspace_lock
    where not exists (
        select from execution
        where execution.run_id = workspace_lock.run_id and execution.terminal is null)
),
-- A lease of a worker that has expired ends for ever: its call goes on under another wait, or ends.
lost as (
    update wait
    set lost_at = $1, lease_holder = null, lease_expires_at = null, lease_ms = null
    where id in (
        select id
        from wait
        where kind = 'tool' and lease_holder is not null and answered_at is null
          and lease_expires_at <= $1
        order by lease_expires_at
        limit $3
        for update skip locked)
    returning run_id
)
(
    select 'deadline' as cause, run_id
    from execution
    where deadline_at is not null and deadline_at <= $1
      and run_id <> all($4)
    order by deadline_at
    limit $3
)
union all
(
    select distinct 'expiry', run_id
    from (
        select run_id
        from wait
        where expires_at is not null and expires_at <= $1
          and run_id <> all($4)
        order by expires_at
        limit $3
    ) as over
)
union all
(
    select distinct 'worker', run_id
    from (
        (select run_id from wait where lost_at is not null and run_id <> all($4) order by lost_at limit $3)
        union all
        select run_id from lost where run_id <> all($4)
    ) as over
)
union all
(
    -- The clock of a step runs while a participant has its decision's lease: not from the end of one that expired.
    select 'step', run_id
    from wait
    where step_until <= $1 and step_until <= lease_expires_at
      and lease_holder is not null and answered_at is null and not withheld
      and run_id <> all($4)
    order by step_until
    limit $3
)
union all
(
    -- The id of a timer is made of its time.
    select 'timer', run_id
    from wait
    where kind = 'timer'
      and id < $2
      and run_id <> all($4)
    order by id
    limit $3
)
union all
(
    select 'workspace', waiter.run_id
    from workspace_lock as waiter
    join execution on execution.run_id = waiter.run_id
    where not waiter.held
      and execution.state = 'BLOCKED'
      and waiter.run_id <> all($4)
      and not exists (
          select from workspace_lock as holder
          join execution as work on work.run_id = holder.run_id and work.terminal is null
          where holder.host = waiter.host
            and holder.held
            and (holder.path = waiter.path
                 or starts_with(holder.path, waiter.path || '/')
                 or starts_with(waiter.path, holder.path || '/')))
    order by waiter.since
    limit $3
)
