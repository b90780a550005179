-- Notes when anchoring began, once.
insert into anchoring (started_at) values ($1) on conflict do nothing
