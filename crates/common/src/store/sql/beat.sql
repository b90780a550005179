-- One row a lease that the process holds, or one without a run when it holds none; no row when
-- nobody knows the process any more. Each says as well whether there is something to take over and
-- something to take up, so that a process at rest asks nothing else. Runs that it leaves alone are
-- no reason to ask.
with recursive beaten as (
    update executor set heartbeat_at = greatest(heartbeat_at, $2) where id = $1 returning id
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
look as (
    select exists (
               select from owner
               left join executor on executor.id = owner.id
               where owner.id <> $1
                 and (executor.id is null or executor.heartbeat_at < $3)
                 and exists (
                     select from execution
                     where lease_owner = owner.id and run_id <> all($4)
                 )
           ) as orphans,
           exists (
               select from execution
               where ready_at is not null and lease_owner is null and run_id <> all($4)
           ) as ready
)
select execution.run_id, execution.lease_epoch, look.orphans, look.ready
from beaten
cross join look
left join execution on execution.lease_owner = beaten.id
