-- Stores the answer of a call. Returns no row when the same call has an answer that has not expired.
insert into request_outcome (subject, identity, request_id, run_id, method, request_digest, response,
                             created_at)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict on constraint request_outcome_pkey
    do update set run_id = excluded.run_id,
                  method = excluded.method,
                  request_digest = excluded.request_digest,
                  response = excluded.response,
                  created_at = excluded.created_at
    where request_outcome.created_at < $9
returning true
