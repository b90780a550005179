-- Locks runs that this executor holds under exactly these leases.
select execution.run_id
from execution
join unnest($2::uuid[], $3::bigint[]) as lease (run_id, epoch)
  on lease.run_id = execution.run_id and lease.epoch = execution.lease_epoch
where execution.lease_owner = $1
for update of execution skip locked
