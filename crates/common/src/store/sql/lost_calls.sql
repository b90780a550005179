-- The waits of a run whose workers are lost.
select id from wait where run_id = $1 and lost_at is not null
