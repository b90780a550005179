-- Notifies idle subscribers of a change that is written alone, with its commit.
select run_id,
       (select count(pg_notify(channel, text))
        from unnest($22::text[], $23::text[]) as notice (channel, text))
from moved
