-- Those of the host labels of which an executor was heard since.
select distinct host_label from executor where host_label = any($1) and heartbeat_at >= $2
