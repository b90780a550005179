-- The step's clock stands still while no participant has leased the wait.
-- Since when no lease runs; without a meaning while one does.
alter table wait add column free_since timestamptz not null default now();
-- How long none ran until then, in milliseconds.
alter table wait add column free_ms bigint not null default 0;
