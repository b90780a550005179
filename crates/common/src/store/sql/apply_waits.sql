-- The rows of waits follow the runs that were changed.
answered as (
    update wait
    set answered_at = change.at
    from fenced
    join moved on moved.run_id = fenced.run_id
    join change on change.run_id = fenced.run_id
    where wait.id = fenced.id
      -- One that also ends is deleted below: a statement changes a row once.
      and wait.id <> all($29)
),
closed as (
    delete from wait
    using unnest($28::uuid[], $29::uuid[]) as gone (run_id, id)
    join moved on moved.run_id = gone.run_id
    where wait.id = gone.id
    returning wait.id, wait.lease_holder, wait.lease_epoch, wait.lease_expires_at,
              wait.lease_ms, wait.labels
),
-- The next wait of a step is leased to the participant that answered the one before, whose time begins anew.
opened as (
    insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld, lease_holder,
                      lease_epoch, lease_expires_at, lease_ms, expires_at, free_since, tool, offered_at, labels,
                      step_until)
    select new.id, new.run_id, new.kind, execution.namespace, execution.priority, change.at, new.withheld,
           closed.lease_holder,
           case when closed.lease_holder is null then 0 else closed.lease_epoch end,
           greatest(closed.lease_expires_at,
                    change.at + make_interval(secs => closed.lease_ms / 1000.0)),
           closed.lease_ms, new.expires_at, change.at, new.tool, new.offered_at,
           -- Of a wait that follows another one the run is not read.
           coalesce(closed.labels, (select run.labels from run where run.id = new.run_id)),
           new.step_until
    from unnest($30::uuid[], $31::uuid[], $32::text[], $33::uuid[], $34::boolean[], $37::timestamptz[],
                $38::text[], $39::timestamptz[], $40::timestamptz[])
         as new (run_id, id, kind, follows, withheld, expires_at, tool, offered_at, step_until)
    join moved on moved.run_id = new.run_id
    join change on change.run_id = new.run_id
    join execution on execution.run_id = new.run_id
    left join closed on closed.id = new.follows
),
withheld as (
    update wait
    set withheld = changed.withheld,
        -- The end of a pause gives its time back, so it is not counted here.
        -- A lease that has expired ended then.
        free_ms = case when changed.withheld and not wait.withheld
                       then wait.free_ms
                            + greatest(0, extract(epoch from change.at
                                                             - greatest(wait.free_since, wait.lease_expires_at))
                                          * 1000)::bigint
                       else wait.free_ms end,
        step_until = case when changed.withheld and not wait.withheld
                          then wait.step_until
                               + greatest(interval '0',
                                          change.at - greatest(wait.free_since, wait.lease_expires_at))
                          else wait.step_until + make_interval(secs => changed.rested_ms / 1000.0) end,
        free_since = case when changed.withheld then wait.free_since else change.at end
    from unnest($35::uuid[], $36::boolean[], $41::bigint[]) as changed (run_id, withheld, rested_ms)
    join moved on moved.run_id = changed.run_id
    join change on change.run_id = changed.run_id
    where wait.run_id = changed.run_id
      and wait.id <> all($29)
)
