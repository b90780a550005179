select execution.*,
       run.request_id, run.goal, run.driver, run.workspace, run.limits::text as limits,
       run.policy::text as policy, run.labels::text as labels, run.trace_parent, run.created_at,
       plan.body::text as plan_body, plan.digest as plan_digest
from execution
join run on run.id = execution.run_id
left join plan on plan.run_id = execution.run_id and plan.revision = execution.plan_revision
where execution.wait_ids is not null
  and ($1 = '' or execution.namespace = $1)
  and ($2::uuid is null or execution.run_id = $2)
  and ($3::uuid is null or execution.run_id > $3)
order by execution.run_id
limit $4
