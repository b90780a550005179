-- The run that waits with this id, or the run whose wait was answered by a call with a request id.
(select run_id from execution where wait_ids @> array[$1])
union all
(select run_id from request_outcome where subject = $1::text)
limit 1
