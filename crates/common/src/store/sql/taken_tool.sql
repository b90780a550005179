-- A tool that another connected worker offers with another schema.
select offered.namespace, offered.tool, offered.identity
from worker_tool as offered
join unnest($3::text[], $4::text[], $5::text[]) as new (namespace, tool, schema_digest)
  on new.namespace = offered.namespace and new.tool = offered.tool
where (offered.identity, offered.worker_id) <> ($1, $2)
  and offered.schema_digest <> new.schema_digest
  and offered.live_until > $6
limit 1
