insert into artifact (digest, bytes, body, created_at)
values ($1, $2, $3, $4)
on conflict on constraint artifact_pkey do nothing
