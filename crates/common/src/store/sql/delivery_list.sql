-- A page of deliveries, the newest first, without their bodies.
-- $1 hook or empty, $2 states or none, $3 before this id, $4 at most so many
select id, hook, forge, delivery_id, event, received_at, state, reason, problem, tasks, attempts, replays,
       processed_at, octet_length(body) as bytes
from forge_delivery
where ($1 = '' or hook = $1) and (cardinality($2::text[]) = 0 or state = any ($2))
  and ($3::uuid is null or id < $3)
order by id desc
limit $4
