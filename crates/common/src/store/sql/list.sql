select execution.*,
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
