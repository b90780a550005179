insert into plan (run_id, revision, digest, parent_digest, reason, body, created_at)
values ($1, $2, $3, $4, $5, $6, $7)
