-- The task that an event made. A namespace holds all tasks of its type, so without the concatenation the index of
-- the newest tasks may be read whole, which the planner of an empty table finds as cheap.
select run_id, assignee, server, coalesce(asked_at, happened_at) as asked_at
from task
where event_key = $2 and namespace || '' = $1
