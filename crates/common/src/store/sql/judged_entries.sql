-- The history of a task with what signs it, in the order of its chain.
select sequence, kind, author, body, links, attachment, at, number, previous, key_id, signature, signed_at
from task_entry
where run_id = $1
order by number
limit $2
