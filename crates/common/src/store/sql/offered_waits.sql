-- The most urgent offered waits of each namespace. What was put off and is due is offered again before.
select waiting.id, waiting.namespace
from unnest($2::text[]) as queue (namespace)
cross join lateral (
    select id, namespace, priority, opened_at
    from wait
    where lease_holder is null and answered_at is null and not withheld and offered_at is null
      and kind = $1
      and wait.namespace = queue.namespace
