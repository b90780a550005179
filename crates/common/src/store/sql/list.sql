-- Column by column: a statement that was prepared over `*` is refused once a newer program's
-- migration adds a column, which happens under the older ones that still run.
select execution.run_id, execution.namespace, execution.state, execution.blocked_from,
       execution.version, execution.sequence, execution.priority, execution.ready_at,
       execution.lease_owner, execution.lease_epoch, execution.plan_revision,
       execution.step_states, execution.progress, execution.wait, execution.terminal,
       execution.deadline_at, execution.updated_at,
       run.request_id, run.goal, run.driver, run.workspace, run.limits::text as limits,
       run.policy::text as policy, run.labels::text as labels, run.trace_parent, run.created_at,
       null::text as plan_body, null::text as plan_digest
from run
join execution on execution.run_id = run.id
where ($1 = '' or run.namespace = $1)
  and (cardinality($2::text[]) = 0 or execution.state = any($2))
  and ($3::uuid is null or run.id < $3)
  and run.labels @> $5::jsonb
order by run.id desc
limit $4
