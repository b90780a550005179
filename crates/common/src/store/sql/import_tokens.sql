-- Tokens of a file, each once: a token that is known stays as it is, so that one that was revoked does not
-- come back.
with new as (
    select id, hash, name, string_to_array(roles, ',') as roles,
           array(select json_array_elements_text(namespaces::json)) as namespaces, audit_id
    from unnest($1::uuid[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::uuid[])
        as new (id, hash, name, roles, namespaces, audit_id)
), imported as (
    insert into token (id, hash, name, roles, namespaces, created_at, created_by, request_id, request_digest)
    select id, hash, name, roles, namespaces, $7, $8, '', ''
    from new
    on conflict do nothing
    returning id
), audited as (
    insert into audit (id, at, identity, action, object, namespaces, before, after)
    select audit_id, $7, $8, 'import_token', 'token/' || id, namespaces, null,
           json_build_object('name', name, 'roles', roles, 'namespaces', namespaces)
    from new join imported using (id)
)
select id from imported
