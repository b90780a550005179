-- Tasks of the namespace $5 whose runs ended before $1, in the order of their ids after $2, at most $4. Other runs of
-- their time are kept, so their journals are deleted with them.
with expired as (
    select execution.run_id
    from task
    join execution on execution.run_id = task.run_id
    where task.namespace = $5
      and task.run_id > $2
      and task.run_id < $3
      and task.ended_at is not null
      and execution.terminal is not null
      and execution.updated_at < $1
    order by task.run_id
    limit $4
    for update of execution skip locked
),
forgotten_journal as (
    delete from journal using expired where journal.run_id = expired.run_id
),
