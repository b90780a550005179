-- The verdicts of the changes that apply, in the table that only the gate inserts into.
given as (
    insert into verdict (run_id, sequence, plan_revision, accepted, decided_at, key_id, signature)
    select new.run_id, new.sequence, new.plan_revision, new.accepted, new.decided_at, new.key_id, new.signature
    from unnest($42::uuid[], $43::bigint[], $44::integer[], $45::boolean[], $46::timestamptz[], $47::bytea[],
                $48::bytea[])
         as new (run_id, sequence, plan_revision, accepted, decided_at, key_id, signature)
    -- Not a join, which would compare each verdict with each change: `is true` keeps the list a hashed one.
    where (new.run_id in (select run_id from moved)) is true
)
