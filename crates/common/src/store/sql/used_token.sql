-- At most once a minute, however many processes see the token.
update token set last_used_at = $2
where hash = $1 and (last_used_at is null or last_used_at < $2 - interval '1 minute')
