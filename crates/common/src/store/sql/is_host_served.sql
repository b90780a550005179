-- Whether an executor with this host label was heard since.
select exists (select from executor where host_label = $1 and heartbeat_at >= $2)
