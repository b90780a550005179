-- The journal's partitions; the default partition has no bounds.
select pg_class.oid::regclass::text as name,
       substring(bound from 'FROM \(''([0-9a-f-]+)''')::uuid as first,
       substring(bound from 'TO \(''([0-9a-f-]+)''')::uuid as behind
from pg_inherits
join pg_class on pg_class.oid = pg_inherits.inhrelid
cross join lateral pg_get_expr(pg_class.relpartbound, pg_class.oid) as bound
where pg_inherits.inhparent = 'journal'::regclass
