-- The intent to write on a forge, once for each task and action.
insert into escalation (run_id, action, chain_id, forge, repo, number, is_pull_request, account, title, body, state,
                        next_attempt_at, noted_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'due', $11, $11)
on conflict on constraint escalation_pkey do nothing
