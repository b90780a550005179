select run_id, request_digest from mail where sender = $1 and request_id = $2
