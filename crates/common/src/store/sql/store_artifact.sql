-- Stores content unless it exists, and records that this run may refer to it.
with stored as (
    insert into artifact (digest, bytes, body, stored_at)
    values ($1, $2, $3, $4)
    on conflict on constraint artifact_pkey
        -- The process that deletes old artifacts sees by this that the content is in use again.
        do update set stored_at = greatest(artifact.stored_at, excluded.stored_at)
    returning digest
)
insert into artifact_use (run_id, digest)
select $5, digest from stored
on conflict on constraint artifact_use_pkey do nothing
