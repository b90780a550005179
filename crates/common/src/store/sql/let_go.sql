-- Returns leases on runs whose rows this process cannot decode; a newer program may be able to. A
-- row with active steps is left as it is, because only a process that decodes it can decide about
-- them.
update execution
set lease_owner = null,
    version = version + 1,
    updated_at = $3
where run_id = any($2)
  and lease_owner = $1
  and strpos(step_states, $4) = 0
