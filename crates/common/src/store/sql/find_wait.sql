select run_id from execution where wait is not null and wait ->> 'id' = $1
