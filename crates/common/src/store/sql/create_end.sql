-- Notifies idle executors of a run that is created alone, with its commit.
select id,
       (select count(pg_notify(channel, text))
        from unnest($31::text[], $32::text[]) as notice (channel, text))
from made
