-- Plans of runs, each in one revision.
select plan.run_id, plan.body
from unnest($1::uuid[], $2::integer[]) as wanted (run_id, revision)
join plan on plan.run_id = wanted.run_id and plan.revision = wanted.revision
