-- Notes the answer to a message, which is then read too. No row where it has one already, or failed unanswered.
update mail set answered_at = $2, read_at = coalesce(read_at, $2)
where run_id = $1 and answered_at is null and failure in ('', 'unread')
returning kind
