-- Locks runs that this executor holds the lease of.
select run_id
from execution
where lease_owner = $1
  and run_id = any($2)
for update skip locked
