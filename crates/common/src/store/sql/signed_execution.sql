-- The mutable row of a run, which has to read as those that work on the run read it.
select run_id, namespace, state, blocked_from, version, sequence, priority, ready_at, lease_owner, lease_epoch,
       plan_revision, step_states, progress, wait, terminal, deadline_at, updated_at, host_label
from execution
where run_id = $1
