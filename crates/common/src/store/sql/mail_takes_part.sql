-- Whether an agent sent or received a message of a thread.
select exists (select from mail where thread_id = $1 and (sender = $2 or receiver = $2))
