-- Ends the registration of a key, unless it ended before.
update signing_key set valid_until = $3
where key_id = $1 and service = $2 and valid_until is null
