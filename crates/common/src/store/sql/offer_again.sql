-- Ends the lease of the wait for a run's next decision: it is offered again.
update wait
set lease_holder = null, lease_expires_at = null, lease_ms = null,
    free_since = least($2, greatest(lease_expires_at, free_since))
where run_id = $1 and kind in ('decision', 'model_decision') and lease_holder is not null and answered_at is null
