-- The most urgent offered calls of each tool and namespace.
select waiting.id, waiting.namespace, waiting.tool, coalesce(waiting.labels, '{}'::jsonb) as labels
from unnest($1::text[], $2::text[], $3::bigint[]) as wanted (namespace, tool, most)
cross join lateral (
    select id, namespace, tool, priority, opened_at, labels
    from wait
    where kind = 'tool' and lease_holder is null and answered_at is null and not withheld and lost_at is null
      and wait.namespace = wanted.namespace
      and wait.tool = wanted.tool
      and wait.offered_at <= $4
    order by priority desc, opened_at
    limit wanted.most
) as waiting
order by waiting.priority desc, waiting.opened_at
