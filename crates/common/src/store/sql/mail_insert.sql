-- Stores a message, once for each request id of its sender.
insert into mail (run_id, thread_id, in_reply_to, kind, sender, receiver, subject, body, sent_at, deadline_at,
                  request_id, request_digest)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
on conflict (sender, request_id) where request_id <> '' do nothing
returning run_id
