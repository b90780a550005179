-- Takes the due escalations of a task. No other planner takes them until $3.
update escalation
set attempts = attempts + 1, next_attempt_at = $3
where run_id = $1 and state = 'due' and next_attempt_at <= $2
returning run_id, action, chain_id, forge, repo,
          coalesce((select task.server from task where task.run_id = escalation.run_id), '') as server, number, is_pull_request, account, title, body, attempts
