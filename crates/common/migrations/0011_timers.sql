-- The timers in the order of their ends: the id of a wait for a time is a UUIDv7 of that time.
create index wait_timers on wait (id) where kind = 'timer';
