-- Notes that the receiver read a message. Returns whether that accepts it: an inform, the first time, by its deadline. No row
-- where an inform is read after its deadline and has not failed yet: it fails as unread.
update mail set read_at = $2
where run_id = $1 and read_at is null and (kind = 'request' or failure <> '' or deadline_at > $2)
returning kind = 'inform' and failure = ''
