-- One row, or none when nobody knows the process any more: the leases that it holds, who else holds
-- leases with their last heartbeats, and whether something waits, so that a process at rest asks
-- nothing else. Runs that it leaves alone are no reason to ask.
with recursive beaten as (
    update executor set heartbeat_at = $2 where id = $1 returning id
),
-- From one owner of leases to the next, past all the leases between.
owner (id) as (
    (select lease_owner from execution
     where lease_owner is not null
     order by lease_owner
     limit 1)
    union all
    select (select lease_owner from execution
            where lease_owner > owner.id
            order by lease_owner
            limit 1)
    from owner
    where owner.id is not null
),
other as (
    select array_agg(owner.id order by owner.id) as ids,
           array_agg(executor.heartbeat_at order by owner.id) as heartbeats
    from owner
    left join executor on executor.id = owner.id
    where owner.id <> $1
      and exists (
          select from execution where lease_owner = owner.id and run_id <> all($3)
      )
),
lease as (
    select array_agg(run_id) as run_ids, array_agg(lease_epoch) as epochs
    from execution
    where lease_owner = $1
)
select coalesce(lease.run_ids, '{}'), coalesce(lease.epochs, '{}'),
       coalesce(other.ids, '{}'), coalesce(other.heartbeats, '{}'),
       exists (
           select from execution
           where ready_at is not null and lease_owner is null and run_id <> all($3)
       )
from beaten
cross join other
cross join lease
