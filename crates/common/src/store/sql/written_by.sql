-- What one actor wrote to a run's journal, the latest first.
select sequence, at, actor, entries
from journal
where run_id = $1 and actor = $2
order by sequence desc
limit $3
