-- The waits that are answered under their present lease. A lease that was lost, and a wait that has an answer,
-- match none. The run's row is locked first, as every other change of waits does.
answer as (
    select * from unnest($25::uuid[], $26::uuid[], $27::bigint[]) as answer (run_id, wait_id, lease_epoch)
),
locked as (
    select run_id from execution where run_id = any($25) for update
),
fenced as (
    select wait.id, wait.run_id
    from locked
    join answer on answer.run_id = locked.run_id
    join wait on wait.id = answer.wait_id
    where wait.run_id = answer.run_id
      and wait.lease_epoch = answer.lease_epoch
      -- A released lease answers nothing; a wait without a lease is answered with 0.
      and (wait.lease_holder is not null) = (answer.lease_epoch > 0)
      and wait.answered_at is null
    for update of wait
)
