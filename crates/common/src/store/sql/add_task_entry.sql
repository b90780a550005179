-- Adds an entry to the history of a task.
insert into task_entry (run_id, kind, author, body, links, attachment, at)
values ($1, $2, $3, $4, $5, $6, $7)
returning sequence
