-- A copy of the primary database's tokens in the database of a namespace. What ends a token there ends it
-- here, whichever process brought its row.
insert into token (id, hash, name, roles, namespaces, created_at, created_by, request_id, request_digest,
                   expires_at, revoked_at)
select id, hash, name, string_to_array(roles, ','),
       array(select json_array_elements_text(namespaces::json)), created_at,
       created_by, '', '', expires_at, revoked_at
from unnest($1::uuid[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[],
            $8::timestamptz[], $9::timestamptz[])
    as new (id, hash, name, roles, namespaces, created_at, created_by, expires_at, revoked_at)
on conflict (hash) do update
set expires_at = excluded.expires_at, revoked_at = coalesce(token.revoked_at, excluded.revoked_at)
where token.expires_at is distinct from excluded.expires_at
   or (token.revoked_at is null and excluded.revoked_at is not null)
