insert into executor (id, name, slots, host_label, started_at, heartbeat_at) values ($1, $2, $3, $5, $4, $4)
