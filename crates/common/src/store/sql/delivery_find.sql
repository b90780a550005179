select id, hook, forge, delivery_id, event, received_at, state, reason, problem, tasks, attempts, replays,
       processed_at, octet_length(body) as bytes, headers, body
from forge_delivery
where id = $1
