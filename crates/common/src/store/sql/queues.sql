-- Lists queues that hold waiting runs, after the given one. It skips by the index from each queue
-- to the next.
with recursive queue as (
    (select namespace, priority, 1 as number
     from execution
     where ready_at is not null
       and lease_owner is null
       and (namespace, priority) > ($1::text, $2::smallint)
     order by namespace, priority
     limit 1)
    union all
    select next.namespace, next.priority, queue.number + 1
    from queue
    cross join lateral (
        select namespace, priority
        from execution
        where ready_at is not null
          and lease_owner is null
          and (namespace, priority) > (queue.namespace, queue.priority)
        order by namespace, priority
        limit 1
    ) as next
    where queue.number < $3
)
select namespace, priority from queue
