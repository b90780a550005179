select id, request_digest from run where namespace = $1 and request_id = $2
