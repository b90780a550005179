-- The tokens whose namespaces are all among $2; an empty list stands for every namespace.
select id, hash, name, roles, namespaces, created_at, created_by, expires_at, revoked_at, last_used_at
from token
where ($1::uuid is null or id > $1)
  and (cardinality($2::text[]) = 0 or namespaces <@ $2)
order by id
limit $3
