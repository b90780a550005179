-- Blocked runs that wait for a folder which is free, at most $1, those that have waited longest first, except $2. Each
-- folder that runs wait for is one step through the index, however many they are, and is looked up once.
with recursive awaited as (
    (select host, path
     from workspace_lock
     where not held
     order by host, path
     limit 1)
    union all
    select next.host, next.path
    from awaited
    cross join lateral (
        select host, path
        from workspace_lock
        where not held
          and (workspace_lock.host, workspace_lock.path) > (awaited.host, awaited.path)
        order by host, path
        limit 1
    ) as next
),
free as materialized (
    select host, path
    from awaited
    -- Subqueries for one value stay a search by the index for each folder.
    where (
            -- The folder itself, and those above it but the root.
            select holder.run_id
            from workspace_lock as holder
            join execution on execution.run_id = holder.run_id and execution.terminal is null
            where holder.host = awaited.host
              and holder.held
              and holder.path = any(array(
                  select array_to_string(names[:depth], '/')
                  from (select string_to_array(awaited.path, '/') as names) as split
                  cross join generate_series(2, cardinality(names)) as depth))
            limit 1) is null
      and (
            -- Those below it: in this order `0` is behind `/`.
            select holder.run_id
            from workspace_lock as holder
            join execution on execution.run_id = holder.run_id and execution.terminal is null
            where holder.host = awaited.host
              and holder.held
              and holder.path > rtrim(awaited.path, '/') || '/'
              and holder.path < rtrim(awaited.path, '/') || '0'
            order by holder.path
            limit 1) is null
)
select waiter.run_id
from free
cross join lateral (
    select lock.run_id, lock.since
    from workspace_lock as lock
    join execution on execution.run_id = lock.run_id and execution.state = 'BLOCKED'
    where lock.host = free.host
      and lock.path = free.path
      and not lock.held
      and lock.run_id <> all($2)
    order by lock.since
    limit $1
) as waiter
order by waiter.since
limit $1
