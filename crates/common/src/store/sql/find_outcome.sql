-- The stored answer of a call, unless it has expired.
select method, request_digest, response
from request_outcome
where subject = $1 and identity = $2 and request_id = $3 and created_at >= $4
