-- Extends the leases that these participants still hold. A row that another change has locked, such as the one with the
-- answer, keeps its time: waiting for it, with the locks of all others, would hold up their answers.
with held as (
    select wait.id, wait.run_id, wait.lease_epoch, wait.withheld, wait.lease_expires_at, lease.holder
    from unnest($1::uuid[], $2::bigint[], $3::text[]) as lease (run_id, lease_epoch, holder)
    join wait on wait.run_id = lease.run_id
             and wait.lease_epoch = lease.lease_epoch
             and starts_with(wait.lease_holder, lease.holder || ' ')
),
free as (
    select wait.id
    from held
    join wait on wait.id = held.id
             and wait.lease_epoch = held.lease_epoch
             and starts_with(wait.lease_holder, held.holder || ' ')
    for update of wait skip locked
),
extended as (
    update wait
    set lease_expires_at = $4 + make_interval(secs => lease_ms / 1000.0),
        -- The clock of the step stood still from the end of a lease that expired to this sign of life.
        step_until = case when withheld then step_until
                     else step_until + greatest(interval '0', $4 - greatest(lease_expires_at, free_since)) end,
        free_ms = case when withheld then free_ms
                  else free_ms
                       + greatest(0, extract(epoch from $4 - greatest(lease_expires_at, free_since)) * 1000)::bigint end
    from free
    where wait.id = free.id
    returning wait.run_id, wait.lease_epoch, wait.withheld, wait.lease_expires_at
)
select run_id, lease_epoch, bool_or(withheld), max(lease_expires_at)
from (select run_id, lease_epoch, withheld, lease_expires_at from held
      union all
      select run_id, lease_epoch, withheld, lease_expires_at from extended) as known
group by run_id, lease_epoch
