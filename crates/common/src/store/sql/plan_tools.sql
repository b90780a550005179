-- The tools that steps of a namespace may call: those of executors, and those that workers offer.
select tool, description, schema, false as of_worker
from shown_tool
union all
(select distinct on (tool) tool, coalesce(spec::json ->> 'description', ''), '', true
 from worker_tool
 where namespace = $1 and live_until > $2
 order by tool, announced_at desc)
order by 4, 1
limit $3
