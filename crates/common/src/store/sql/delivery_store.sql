-- Stores deliveries, each id of a hook once, and returns the rows that are new.
insert into forge_delivery (id, hook, forge, delivery_id, event, headers, body, digest, received_at, state,
                            next_attempt_at)
select id, hook, forge, delivery_id, event, headers, body, digest, received_at, 'stored', received_at
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bytea[],
            $9::timestamptz[])
    as new (id, hook, forge, delivery_id, event, headers, body, digest, received_at)
on conflict (hook, delivery_id) do nothing
returning id
