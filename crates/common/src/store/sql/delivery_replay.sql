-- Has a delivery processed again. One that waits for that already is processed at once.
-- $1 id, $2 now
update forge_delivery
set state = 'stored', reason = '', problem = '', attempts = 0, replays = replays + 1, next_attempt_at = $2,
    processed_at = null
where id = $1
returning id, hook, forge, delivery_id, event, received_at, state, reason, problem, tasks, attempts, replays,
          processed_at, octet_length(body) as bytes
