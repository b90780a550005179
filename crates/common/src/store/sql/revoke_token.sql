with revoked as (
    update token set revoked_at = $2
    where id = $1 and revoked_at is null
    returning id, name, namespaces
)
insert into audit (id, at, identity, action, object, namespaces, before, after)
select $3, $2, $4, 'revoke_token', 'token/' || id, namespaces,
       json_build_object('name', name, 'revoked', false), json_build_object('name', name, 'revoked', true)
from revoked
