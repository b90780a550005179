-- Partitions that were detached from the journal to be dropped.
select pg_class.oid::regclass::text
from pg_class
join pg_class as journal on journal.relnamespace = pg_class.relnamespace
where journal.oid = 'journal'::regclass
  and pg_class.relkind = 'r'
  and not pg_class.relispartition
  and pg_class.relname like 'expired\_journal\_%'
