-- Stores an agent, in place of one with the same id.
insert into agent (id, roles, language, concurrency, credential, driver, updated_at, updated_by)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict on constraint agent_pkey do update
set roles = excluded.roles, language = excluded.language, concurrency = excluded.concurrency,
    credential = excluded.credential, driver = excluded.driver, updated_at = excluded.updated_at, updated_by = excluded.updated_by
