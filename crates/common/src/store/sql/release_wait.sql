-- Ends a lease. A wait whose answer is being carried out is then followed by one without a lease.
update wait
set lease_holder = null, lease_expires_at = null, lease_ms = null, free_since = $4
where run_id = $1 and lease_epoch = $2 and starts_with(lease_holder, $3 || ' ')
returning id
