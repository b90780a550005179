-- The tools that steps of a namespace may call: those of executors, and those that servers and workers offer.
select tool, description, schema, false as from_outside
from shown_tool
union all
(select distinct on (tool) tool, description, '', true
 from (select tool, description, 0 as place, shown_at
       from shown_server_tool
       where namespaces is null or $1 = any(namespaces)
       union all
       select tool, coalesce(spec::json ->> 'description', ''), 1, announced_at
       from worker_tool
       where namespace = $1 and live_until > $2) as offered
 order by tool, place, shown_at desc)
order by 4, 1
limit $3
