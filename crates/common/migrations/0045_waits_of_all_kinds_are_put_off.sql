-- The wait of a run that cannot be read is put off when its lease is given back, also where an agent decides or plans: the
-- constraint refused that, so the lease stayed until it expired. Every row fits the wider one.
alter table wait drop constraint wait_call_whole;
alter table wait add constraint wait_call_whole check (
    (kind = 'tool') = (tool is not null) and (tool is null or offered_at is not null)
) not valid;
