-- A page of the history of a task, the oldest first.
select sequence, kind, author, body, links, attachment, at
from task_entry
where run_id = $1 and sequence > $2
order by sequence
limit $3
