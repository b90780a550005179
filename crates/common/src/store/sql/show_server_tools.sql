-- Stores what a server offers, in place of what it offered before.
with shown as (
    select * from unnest($2::text[], $3::text[]) as shown (tool, description)
),
gone as (
    delete from shown_server_tool where server = $1 and tool <> all($2)
)
insert into shown_server_tool (server, tool, description, namespaces, shown_at)
select $1, tool, description, $4, $5
from shown
order by tool
on conflict on constraint shown_server_tool_pkey
    do update set description = excluded.description, namespaces = excluded.namespaces,
                  shown_at = excluded.shown_at
