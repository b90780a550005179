-- Runs with everything that an executor needs to work on them.
--
-- The columns are named, because a statement prepared with `*` fails in older processes once a
-- newer program's migration adds a column.
select execution.run_id, execution.namespace, execution.state, execution.blocked_from,
       execution.version, execution.sequence, execution.priority, execution.ready_at,
       execution.lease_owner, execution.lease_epoch, execution.plan_revision,
       execution.step_states, execution.progress, execution.wait, execution.terminal,
       execution.deadline_at, execution.updated_at, execution.host_label,
       run.request_id, run.goal, run.driver, run.workspace, run.limits::text as limits,
       run.policy::text as policy, run.labels::text as labels, run.trace_parent, run.created_at,
       run.forked_from::text as forked_from,
       run.repository::text as repository,
       plan.body as plan_body, plan.digest as plan_digest
from execution
join run on run.id = execution.run_id
left join plan on plan.run_id = execution.run_id and plan.revision = execution.plan_revision
where execution.run_id = any($1)
