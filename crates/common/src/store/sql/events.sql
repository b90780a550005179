select sequence, at, actor, entries
from journal
where run_id = $1 and sequence >= $2
order by sequence
limit $3
