-- Stores the tools of an executor. The last one that started counts.
insert into shown_tool (tool, description, schema, shown_at)
select tool, description, schema, $4
from unnest($1::text[], $2::text[], $3::text[]) as shown (tool, description, schema)
order by tool
on conflict on constraint shown_tool_pkey
    do update set description = excluded.description, schema = excluded.schema, shown_at = excluded.shown_at
