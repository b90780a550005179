-- The changes of many runs, one row for each chain. The caller closes the parenthesis.
change as (
    select * from unnest(
        $1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[],
        $8::smallint[], $9::timestamptz[], $10::uuid[], $11::bigint[], $12::integer[], $13::text[],
        $14::text[], $15::text[], $16::text[], $17::text[], $18::timestamptz[], $19::timestamptz[],
        $20::text[], $21::text[], $24::bytea[]
    ) as change (
        run_id, read_version, read_epoch, version, state, blocked_from, sequence,
        priority, ready_at, lease_owner, lease_epoch, plan_revision, step_states,
        progress, wait, wait_ids, terminal, deadline_at, at,
        entries, actor, signature)
