-- Whether a participant with this identity has leased a decision or a plan of a run.
select exists (
    select from wait
    where run_id = $1 and kind <> 'tool' and starts_with(lease_holder, $2 || ' ')
)
