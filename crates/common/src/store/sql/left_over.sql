-- Locks all runs that this executor holds.
select run_id
from execution
where lease_owner = $1
for update skip locked
