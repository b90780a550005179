-- The last entry in the history of a task up to the number $2.
select sequence, kind, author, body, links, attachment, at, number, previous, key_id, signature, signed_at
from task_entry
where run_id = $1 and number <= $2
order by number desc
limit 1
