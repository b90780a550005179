select id, hash, name, roles, namespaces, created_at, created_by, expires_at, revoked_at, last_used_at,
       request_digest
from token
where created_by = $1 and request_id = $2
