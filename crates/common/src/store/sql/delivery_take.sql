-- Takes due deliveries until $2: no other planner takes them before. Each comes with the first delivery of the same
-- hook that had its content and did not fail. Together their bodies have about 32 MiB at most, so that the answer arrives in time.
-- $1 now, $2 when another planner may take them, $3 at most so many
with due as (
    select id, next_attempt_at, octet_length(body) as bytes
    from forge_delivery
    where state = 'stored' and next_attempt_at <= $1
    order by next_attempt_at, id
    limit $3
    for update skip locked
),
fitting as (
    select id
    from (select id, bytes, sum(bytes) over (order by next_attempt_at, id) as total from due) as summed
    where total - bytes < 33554432
)
update forge_delivery as delivery
set attempts = attempts + 1, next_attempt_at = $2
from fitting
where delivery.id = fitting.id
returning delivery.id, delivery.hook, delivery.forge, delivery.event, delivery.headers, delivery.body,
          delivery.attempts, delivery.replays,
          (select earlier.id
           from forge_delivery as earlier
           where earlier.digest = delivery.digest and earlier.id < delivery.id and earlier.hook = delivery.hook
             and earlier.state not in ('repeated', 'failed')
           order by earlier.id
           limit 1) as repeats
