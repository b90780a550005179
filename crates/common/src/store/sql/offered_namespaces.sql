-- Offers waits of a kind again whose lease has expired or that were put off until now, and lists the namespaces that have
-- offered waits. Each namespace is one step through the index, however many waits it has, and however many are put off.
with recursive expired as (
    update wait
    set lease_holder = null, lease_expires_at = null, lease_ms = null,
        -- After a pause from its end, which gives the pause back.
        free_since = greatest(lease_expires_at, free_since)
    where id in (
        select id
        from wait
        where lease_holder is not null and answered_at is null
          and lease_expires_at <= $2
          and kind = $1
        order by lease_expires_at
        limit 1000
        for update skip locked)
    returning namespace
),
due_again as (
    update wait
    set offered_at = null
    where id in (
        select id
        from wait
        where lease_holder is null and answered_at is null and not withheld
          -- Calls of tools have a time as long as they are open.
          and kind = $1 and kind <> 'tool'
          and offered_at <= $2
        order by offered_at
        limit 1000
        for update skip locked)
    returning namespace
),
offered as (
    (select namespace
     from wait
     where lease_holder is null and answered_at is null and not withheld and offered_at is null
       and kind = $1
     order by namespace
     limit 1)
    union all
    select (select wait.namespace
            from wait
            where lease_holder is null and answered_at is null and not withheld and offered_at is null
              and kind = $1
              and wait.namespace > offered.namespace
            order by wait.namespace
            limit 1)
    from offered
    where offered.namespace is not null
)
(select namespace from offered where namespace is not null limit $3)
union
select namespace from expired
union
select namespace from due_again
