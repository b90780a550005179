-- Runs that the clock moves on, at most $3 of each cause, the earliest first. One statement, because it is sent at rest too.
--
-- A lease of a worker that has expired ends for ever: its call goes on under another wait, or ends.
with lost as (
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
