-- One row, or none when the process is no longer registered. It returns the process's leases, the
-- other owners of leases with their last heartbeats, and whether runs wait. An idle process sends
-- no other query. Runs that it must not claim do not count.
with recursive beaten as (
    update executor set heartbeat_at = $2 where id = $1 returning id, host_label
),
-- Skips from one owner of leases to the next by the index.
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
          select from execution
          where lease_owner = owner.id
            and run_id <> all($3)
            and (host_label is null or host_label = (select host_label from beaten))
      )
),
lease as (
    select array_agg(run_id) as run_ids, array_agg(lease_epoch) as epochs
    from execution
    where lease_owner = $1
)
select coalesce(lease.run_ids, '{}'), coalesce(lease.epochs, '{}'),
       coalesce(other.ids, '{}'), coalesce(other.heartbeats, '{}'),
       -- In the order of their indexes, so that the database reads these.
       (
           select run_id
           from execution
           where ready_at is not null
             and lease_owner is null
             and run_id <> all($3)
             and host_label is null
           order by namespace, priority, ready_at
           limit 1
       ) is not null
       or (
           select run_id
           from execution
           where ready_at is not null
             and lease_owner is null
             and run_id <> all($3)
             and execution.host_label = beaten.host_label
           order by namespace, priority, ready_at
           limit 1
       ) is not null
from beaten
cross join other
cross join lease
