-- The waits of a run for calls that a worker has or had: each lease raises the fencing token.
select id from wait where run_id = $1 and kind = 'tool' and lease_epoch > 0
