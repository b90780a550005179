select state, blocked_from from execution where run_id = $1
