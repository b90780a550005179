-- Runs that ended before $1, in the order of their ids after $2, at most $4, without those of the namespaces $5. Their
-- journals are deleted elsewhere.
with expired as (
    select run_id
    from execution
    where run_id > $2
      and run_id < $3
      and terminal is not null
      and updated_at < $1
      and namespace <> all($5)
    order by run_id
    limit $4
    for update skip locked
),
