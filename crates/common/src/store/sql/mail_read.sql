-- Notes that the receiver read a message. Returns whether that accepts it: an inform, the first time, by its deadline.
update mail set read_at = $2
where run_id = $1 and read_at is null
returning kind = 'inform' and failure = ''
