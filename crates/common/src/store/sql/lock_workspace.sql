-- Locks the folder $3 of host $2 for run $1 at $4, or enters the run as a waiter. Returns the run that
-- holds the folder or one above it ($5), else one below it, whose paths begin with $6, and its path; no row when the
-- lock is held now.
with holder as (
    (select lock.run_id, lock.path
     from workspace_lock as lock
     join execution on execution.run_id = lock.run_id and execution.terminal is null
     where lock.host = $2
       and lock.run_id <> $1
       and lock.held
       and lock.path = any($5)
       and not exists (select from workspace_lock as own where own.run_id = $1 and own.held)
     order by lock.since
     limit 1)
    union all
    (select lock.run_id, lock.path
     from workspace_lock as lock
     join execution on execution.run_id = lock.run_id and execution.terminal is null
     where lock.host = $2
       and lock.run_id <> $1
       and lock.held
       -- In this order `0` is behind the `/` at the end.
       and lock.path > $6 and lock.path < left($6, -1) || '0'
       and not exists (select from workspace_lock as own where own.run_id = $1 and own.held)
     order by lock.path
     limit 1)
    limit 1
),
entered as (
    insert into workspace_lock (run_id, host, path, held, since)
    values ($1, $2, $3, not exists (select from holder), $4)
    on conflict on constraint workspace_lock_pkey
        do update set held = workspace_lock.held or excluded.held,
                      host = excluded.host,
                      path = excluded.path
)
select run_id, path from holder
