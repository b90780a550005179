-- Gives back leases over rows that do not read: this process can do nothing with them, and perhaps
-- another can, of a newer program. A row with steps under way stays as it is: only who reads it may
-- say what becomes of them.
update execution
set lease_owner = null,
    version = version + 1,
    updated_at = $3
where run_id = any($2)
  and lease_owner = $1
  and strpos(step_states, $4) = 0
