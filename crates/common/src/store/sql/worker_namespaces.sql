-- Policies of earlier versions have no such key.
select namespace
from namespace_policy
where json_array_length(coalesce(body -> 'tool_workers', '[]')) > 0
order by namespace
