-- The tools of MCP servers, for models that plan. What a server says of its tools is data.
create table shown_server_tool (
    server      text        collate "C" not null,
    -- With the server's name before it.
    tool        text        collate "C" not null,
    description text        not null,
    -- The namespaces whose runs may call it; none is every one.
    namespaces  text[],
    shown_at    timestamptz not null,
    constraint shown_server_tool_pkey primary key (server, tool)
);
