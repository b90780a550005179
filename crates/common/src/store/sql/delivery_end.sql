-- Ends deliveries, or has them processed again at a time. One that another planner took meanwhile stays as it is.
update forge_delivery as delivery
set state = ended.state, reason = ended.reason, problem = ended.problem,
    tasks = case when ended.tasks = '' then '{}'::uuid[] else string_to_array(ended.tasks, ',')::uuid[] end,
    next_attempt_at = ended.again_at, processed_at = case when ended.state = 'stored' then null else $8::timestamptz end
from unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
    as ended (id, attempts, state, reason, problem, tasks, again_at)
where delivery.id = ended.id and delivery.state = 'stored' and delivery.attempts = ended.attempts
