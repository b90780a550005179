select id, hash, name, roles, namespaces, created_at, created_by, expires_at, revoked_at, last_used_at
from token
where hash = $1
