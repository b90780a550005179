insert into executor (id, name, slots, started_at, heartbeat_at) values ($1, $2, $3, $4, $4)
