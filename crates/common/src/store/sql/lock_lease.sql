-- The wait under a lease, which no other participant leases until the end of the transaction.
select id from wait
where run_id = $1 and lease_epoch = $2 and starts_with(lease_holder, $3 || ' ')
for share
