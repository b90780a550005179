-- The time at which a step's time is over while a participant has the lease of its decision: the time without a lease moves it.
-- None for other waits, and for those that earlier versions opened.
alter table wait add column step_until timestamptz;
create index wait_late_steps on wait (step_until)
    where step_until is not null and lease_holder is not null and answered_at is null and not withheld;
