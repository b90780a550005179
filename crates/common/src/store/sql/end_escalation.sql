-- Ends an escalation with its receipt or its error, or has it attempted again at $6.
update escalation
set state = case when $6::timestamptz is null then $3 else 'due' end,
    ended_at = case when $6::timestamptz is null then $7::timestamptz end,
    next_attempt_at = $6,
    address = $4,
    error = $5
where run_id = $1 and action = $2 and state = 'due'
returning run_id
