-- Deletes at most $2 expired answers.
delete from request_outcome
where (subject, identity, request_id) in (
    select subject, identity, request_id from request_outcome where created_at < $1 limit $2)
