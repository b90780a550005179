-- Deletes the journals of deleted runs in one partition. Reads at most $3 runs after $1, and
-- returns the last run that it read; none when there was none.
with recursive walk as (
    (select run_id from {partition} where run_id > $1 and run_id < $2 order by run_id limit 1)
    union all
    select (
        select following.run_id
        from {partition} as following
        where following.run_id > walk.run_id and following.run_id < $2
        order by following.run_id
        limit 1
    )
    from walk
    where walk.run_id is not null
),
seen as (
    select run_id from walk where run_id is not null limit $3
),
orphan as (
    select run_id from seen where not exists (select from run where run.id = seen.run_id)
),
deleted as (
    delete from {partition} as journal using orphan where journal.run_id = orphan.run_id
)
select run_id from seen order by run_id desc limit 1
