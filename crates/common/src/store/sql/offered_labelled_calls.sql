-- The most urgent offered calls of each tool, namespace and set of labels. One set without labels has every call.
select waiting.id, waiting.namespace, waiting.tool, coalesce(waiting.labels, '{}'::jsonb) as labels
from (
    select distinct waiting.*
    from unnest($1::text[], $2::text[], $3::bigint[], $5::jsonb[]) as wanted (namespace, tool, most, labels)
    cross join lateral (
        (select id, namespace, tool, priority, opened_at, labels
         from wait
         where kind = 'tool' and lease_holder is null and answered_at is null and not withheld and lost_at is null
           and wait.namespace = wanted.namespace
           and wait.tool = wanted.tool
           and wait.offered_at <= $4
           and wanted.labels = '{}'::jsonb
         order by priority desc, opened_at
         limit wanted.most)
        union all
        (select id, namespace, tool, priority, opened_at, labels
         from wait
         where kind = 'tool' and lease_holder is null and answered_at is null and not withheld and lost_at is null
           and wait.namespace = wanted.namespace
           and wait.tool = wanted.tool
           and wait.offered_at <= $4
           and wanted.labels <> '{}'::jsonb
           -- The filter repeats the expression of its index.
           and wait.labels <> '{}'::jsonb
           and wait.labels @> wanted.labels
         order by priority desc, opened_at
         limit wanted.most)
    ) as waiting
) as waiting
order by waiting.priority desc, waiting.opened_at
