-- Replaces a policy where its version is the expected one, with its audit row. A namespace without a row is at
-- version 0.
with before as (
    select version, body from namespace_policy where namespace = $1
), stored as (
    insert into namespace_policy (namespace, version, body, updated_at, updated_by)
    select $1, 1, $2::json, $3, $4
    where $5::bigint is null or coalesce((select version from before), 0) = $5
    on conflict (namespace) do update
    set version = namespace_policy.version + 1, body = excluded.body,
        updated_at = excluded.updated_at, updated_by = excluded.updated_by
    where $5::bigint is null or namespace_policy.version = $5
    returning version, body::text as body, updated_at, updated_by
), audited as (
    insert into audit (id, at, identity, action, object, namespaces, before, after)
    select $6, $3, $4, 'set_namespace_policy', 'namespace_policy/' || $1, array[$1],
           (select body from before), $2::json
    from stored
)
select version, body, updated_at, updated_by from stored
