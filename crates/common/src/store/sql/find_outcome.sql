-- The stored answer of a call, unless it has expired.
select method, request_digest, response
from request_outcome
where subject = $1 and request_id = $2 and created_at >= $3
