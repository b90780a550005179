-- Whether a participant with this identity holds the lease of a decision or a plan of a run.
select exists (
    select from wait
    where run_id = $1 and kind <> 'tool' and starts_with(lease_holder, $2 || ' ') and lease_expires_at > $3
)
