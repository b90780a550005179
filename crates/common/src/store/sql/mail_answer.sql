-- Notes the answer to a message, which is then read too. No row where it has one already, or failed unanswered, and where its
-- deadline has passed: a message that was read by it, or that failed as unread, may be answered later.
update mail set answered_at = $2, read_at = coalesce(read_at, $2)
where run_id = $1 and answered_at is null
  and ((failure = '' and deadline_at > $2)
       or (kind = 'inform' and (failure = 'unread' or (failure = '' and read_at is not null))))
returning kind
