-- Replaces the files of a namespace's hidden checks.
with gone as (
    delete from namespace_overlay where namespace = $1 and digest <> all($2::text[])
)
insert into namespace_overlay (namespace, digest, body)
select $1, digest, body from unnest($2::text[], $3::bytea[]) as new (digest, body)
on conflict on constraint namespace_overlay_pkey do nothing
