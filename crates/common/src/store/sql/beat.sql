update executor set heartbeat_at = greatest(heartbeat_at, $2) where id = $1
