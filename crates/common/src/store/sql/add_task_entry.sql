-- Adds an entry to the history of a task. The caller has locked the task, so the number is free.
insert into task_entry (run_id, kind, author, body, links, attachment, at, number, previous, key_id, signature, signed_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
returning sequence
