-- Waits of models that are offered later, while their endpoint does not answer, cost the scans nothing: they enter the
-- index of offered waits once they are due. Calls of tools have an index of their own.
drop index wait_offered;
create index wait_offered on wait (kind, namespace, priority desc, opened_at)
    where lease_holder is null and answered_at is null and not withheld and offered_at is null;
create index wait_put_off on wait (kind, offered_at)
    where lease_holder is null and answered_at is null and not withheld and kind <> 'tool' and offered_at is not null;
