-- Deletes a hook, with its audit row. Its deliveries stay.
-- $1 name, $2 now, $3 identity, $4 the audit row's id
with deleted as (
    delete from hook where name = $1
    returning name, forge, secrets, updated_at, updated_by
), audited as (
    insert into audit (id, at, identity, action, object, namespaces, before, after)
    select $4, $2, $3, 'delete_hook', 'hook/' || name, array['_toolchain'],
           json_build_object('forge', forge, 'secrets', secrets), null
    from deleted
)
select name, forge, secrets, updated_at, updated_by from deleted
