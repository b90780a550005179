-- Deletes the locks of ended runs, among $2 behind run $1 and the $2 newest: most runs end soon, and their locks are among
-- these. Returns the last run of the former, none at the end, and how many were deleted.
with turn as (
    select run_id
    from workspace_lock
    where run_id > $1
    order by run_id
    limit $2
),
newest as (
    select run_id
    from workspace_lock
    order by run_id desc
    limit $2
),
ended as (
    delete from workspace_lock
    where run_id in (
        select lock.run_id
        from (select run_id from turn union select run_id from newest) as searched
        join workspace_lock as lock on lock.run_id = searched.run_id
        where not exists (
            select from execution
            where execution.run_id = lock.run_id and execution.terminal is null)
        -- Another planner is deleting these rows.
        for update of lock skip locked)
    returning run_id
)
select (select run_id from turn order by run_id offset $2 - 1) as last,
       (select count(*) from ended) as locks
