-- The run that waits with this id, or the run whose wait was answered by a call with a request id.
(select run_id from wait where id = $1 and answered_at is null)
union all
(select run_id from request_outcome where subject = $1::text)
limit 1
