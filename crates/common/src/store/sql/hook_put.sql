-- Makes or replaces a hook, with its audit row.
-- $1 name, $2 forge, $3 secrets, $4 is_unsigned, $5 now, $6 identity, $7 the audit row's id
with before as (
    select json_build_object('forge', forge, 'secrets', secrets) as shown from hook where name = $1
), stored as (
    insert into hook (name, forge, secrets, is_unsigned, updated_at, updated_by)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (name) do update
    set forge = excluded.forge, secrets = excluded.secrets, is_unsigned = excluded.is_unsigned,
        updated_at = excluded.updated_at, updated_by = excluded.updated_by
    returning name, forge, secrets, updated_at, updated_by
), audited as (
    insert into audit (id, at, identity, action, object, namespaces, before, after)
    select $7, $5, $6, 'put_hook', 'hook/' || $1, array['_toolchain'], (select shown from before),
           json_build_object('forge', $2::text, 'secrets', $3::text[])
    from stored
)
select name, forge, secrets, updated_at, updated_by from stored
