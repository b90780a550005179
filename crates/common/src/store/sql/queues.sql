-- Lists queues that hold waiting runs which this executor may claim, after the given one. It skips by the index from each
-- queue to the next: through the runs that any executor may claim, and through those of its host.
with recursive own as materialized (
    select (select host_label from executor where id = $4) as host_label
),
anywhere as (
    (select namespace, priority, 1 as number
     from execution
     where ready_at is not null
       and lease_owner is null
       and host_label is null
       and (namespace, priority) > ($1::text, $2::smallint)
     order by namespace, priority
     limit 1)
    union all
    select next.namespace, next.priority, anywhere.number + 1
    from anywhere
    cross join lateral (
        select namespace, priority
        from execution
        where ready_at is not null
          and lease_owner is null
          and host_label is null
          and (namespace, priority) > (anywhere.namespace, anywhere.priority)
        order by namespace, priority
        limit 1
    ) as next
    where anywhere.number < $3
),
at_host as (
    (select namespace, priority, 1 as number
     from execution
     where ready_at is not null
       and lease_owner is null
       and host_label = (select own.host_label from own)
       and (namespace, priority) > ($1::text, $2::smallint)
     order by namespace, priority
     limit 1)
    union all
    select next.namespace, next.priority, at_host.number + 1
    from at_host
    cross join lateral (
        select namespace, priority
        from execution
        where ready_at is not null
          and lease_owner is null
          and host_label = (select own.host_label from own)
          and (namespace, priority) > (at_host.namespace, at_host.priority)
        order by namespace, priority
        limit 1
    ) as next
    where at_host.number < $3
)
select namespace, priority from anywhere
union
select namespace, priority from at_host
order by namespace, priority
limit $3
