insert into worker_tool (namespace, tool, identity, worker_id, spec, spec_digest, schema_digest, announced_at, seen_at,
                         live_until)
select new.namespace, new.tool, $1, $2, new.spec, new.spec_digest, new.schema_digest, $8, $8, $9
from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
     as new (namespace, tool, spec, spec_digest, schema_digest)
