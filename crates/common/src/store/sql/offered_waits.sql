-- The most urgent offered waits of each namespace.
select waiting.id, waiting.namespace
from unnest($2::text[]) as queue (namespace)
cross join lateral (
    select id, namespace, priority, opened_at
    from wait
    where lease_holder is null and answered_at is null and not withheld
      and kind = $1
      and (offered_at is null or offered_at <= $5)
      and wait.namespace = queue.namespace
      and ($3::uuid is null or run_id = $3)
