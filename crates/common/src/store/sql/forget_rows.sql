-- Behind the statement that finds the expired runs: deletes their rows, and those artifacts that no other run uses.
-- Returns how many, and the last one.
unused as (
    delete from artifact_use using expired
    where artifact_use.run_id = expired.run_id
    returning artifact_use.digest
),
dropped as (
    delete from artifact
    where digest in (select digest from unused)
      and not exists (
          select from artifact_use
          where artifact_use.digest = artifact.digest
            and artifact_use.run_id not in (select run_id from expired))
      -- Another session may store the same content concurrently. It raises this column first, and
      -- this statement checks changed rows again.
      and stored_at < $1
),
forgotten_execution as (
    delete from execution using expired where execution.run_id = expired.run_id
),
forgotten_lock as (
    delete from workspace_lock using expired where workspace_lock.run_id = expired.run_id
),
forgotten_task as (
    delete from task using expired where task.run_id = expired.run_id
),
forgotten_entry as (
    delete from task_entry using expired where task_entry.run_id = expired.run_id
),
forgotten_mail as (
    delete from mail using expired where mail.run_id = expired.run_id
),
forgotten_escalation as (
    delete from escalation using expired where escalation.run_id = expired.run_id
),
forgotten_verdict as (
    delete from verdict using expired where verdict.run_id = expired.run_id
),
forgotten_anchored as (
    delete from anchored_verdict using expired where anchored_verdict.run_id = expired.run_id
),
forgotten_plan as (
    delete from plan using expired where plan.run_id = expired.run_id
),
forgotten as (
    delete from run using expired where run.id = expired.run_id
)
select count(*), (array_agg(run_id order by run_id desc))[1] from expired
