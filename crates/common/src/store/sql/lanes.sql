-- Lists lanes in which something waits, behind the one named: from each to the next, past all that
-- waits in it.
with recursive lane as (
    (select namespace, priority, 1 as number
     from execution
     where ready_at is not null
       and lease_owner is null
       and (namespace, priority) > ($1::text, $2::smallint)
     order by namespace, priority
     limit 1)
    union all
    select next.namespace, next.priority, lane.number + 1
    from lane
    cross join lateral (
        select namespace, priority
        from execution
        where ready_at is not null
          and lease_owner is null
          and (namespace, priority) > (lane.namespace, lane.priority)
        order by namespace, priority
        limit 1
    ) as next
    where lane.number < $3
)
select namespace, priority from lane
