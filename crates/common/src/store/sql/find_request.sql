select id, request_digest
from run
where id = $3 or ($2 <> '' and namespace = $1 and request_id = $2)
order by (id = $3) desc
limit 1
