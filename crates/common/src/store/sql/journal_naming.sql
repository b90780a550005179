-- The first rows of a run's journal that name a call.
select sequence, at, actor, entries
from journal
where run_id = $1
  and position($2 in entries) > 0
order by sequence
limit $3
