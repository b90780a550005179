-- The events whose namespaces are all among $2; an empty list stands for every namespace.
select id, at, identity, action, object, before::text as before, after::text as after
from audit
where ($1::uuid is null or id < $1)
  and (cardinality($2::text[]) = 0 or namespaces <@ $2)
order by id desc
limit $3
