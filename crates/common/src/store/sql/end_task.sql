-- Ends a task, once, and takes its run from those whose task has not ended.
with ended as (
    update task
    set ended_at = $2, outcome = $3, failure = $4, failure_class = $5, remind_at = null
    where run_id = $1 and ended_at is null
    returning run_id
),
noted as (
    update execution set task_ended = true
    from ended
    where execution.run_id = ended.run_id
)
select run_id from ended
