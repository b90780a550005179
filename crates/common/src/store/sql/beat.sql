-- One row a lease that the process holds, or one without a run when it holds none; no row when
-- nobody knows the process any more.
with beaten as (
    update executor set heartbeat_at = greatest(heartbeat_at, $2) where id = $1 returning id
)
select execution.run_id, execution.lease_epoch
from beaten left join execution on execution.lease_owner = beaten.id
