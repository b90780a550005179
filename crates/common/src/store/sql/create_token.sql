-- A new token with its audit row, once for a request id of its creator.
with created as (
    insert into token (id, hash, name, roles, namespaces, created_at, created_by, request_id,
                       request_digest, expires_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    on conflict do nothing
    returning id, hash, name, roles, namespaces, created_at, created_by, expires_at, revoked_at,
              last_used_at
), audited as (
    insert into audit (id, at, identity, action, object, namespaces, before, after)
    select $11, $6, $7, $12, 'token/' || id, namespaces,
           case when $13::uuid is null then null else json_build_object('replaces', $13) end,
           json_build_object('name', name, 'roles', roles, 'namespaces', namespaces,
                             'expires_at', expires_at)
    from created
), replaced as (
    -- The token that this one replaces ends after its grace.
    update token
    set expires_at = least(coalesce(token.expires_at, 'infinity'), $14)
    from created
    where token.id = $13
)
select id, hash, name, roles, namespaces, created_at, created_by, expires_at, revoked_at, last_used_at
from created
