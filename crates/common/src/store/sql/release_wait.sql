-- Ends a lease; where a time is given, the wait is offered again from then on. A wait whose answer is being carried out is then followed by one without a lease.
-- A lease that has expired ended then: the time after it is not its holder's.
update wait
set lease_holder = null, lease_expires_at = null, lease_ms = null,
    free_since = least($4, greatest(lease_expires_at, free_since)),
    offered_at = coalesce($5, offered_at)
where run_id = $1 and lease_epoch = $2 and starts_with(lease_holder, $3 || ' ')
returning id
