-- Creates runs, each with its plan, its execution and its first journal row, once per request id.
with new as (
    select * from unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::timestamptz[],
        $13::text[], $14::text[], $15::text[],
        $16::bigint[], $17::text[], $18::text[], $19::bigint[], $20::smallint[],
        $21::timestamptz[], $22::integer[], $23::text[], $24::text[], $25::text[], $26::text[],
        $27::text[], $28::timestamptz[], $29::text[], $30::text[], $33::text[], $37::text[], $38::text[],
        $39::bytea[]
    ) as new (
        id, namespace, request_id, request_digest, goal, driver, workspace,
        limits, policy, labels, trace_parent, created_at,
        plan_digest, plan_reason, plan_body,
        version, state, blocked_from, sequence, priority,
        ready_at, plan_revision, step_states, progress, wait, wait_ids,
        terminal, deadline_at, entries, actor, submitter, forked_from, repository,
        signature)
),
made as (
    insert into run (id, namespace, request_id, request_digest, goal, driver, workspace,
                     limits, policy, labels, trace_parent, created_at, submitter, forked_from, repository)
    select id, namespace, request_id, request_digest, goal, driver, workspace,
           limits::json, policy::json, labels::jsonb, trace_parent, created_at, submitter,
           forked_from::json, repository::json
    from new
    -- A conflict is on the request id or, after an answer was lost, on the id itself.
    on conflict do nothing
    returning id
),
-- What follows is for new runs only. It is not joined with them, which would compare each with each: `is true` keeps
-- their list a hashed one.
planned as (
    insert into plan (run_id, revision, digest, parent_digest, reason, body, created_at)
    select id, 1, plan_digest, '', plan_reason, plan_body, created_at
    from new
    where plan_digest is not null
      and (id in (select id from made)) is true
),
executing as (
    insert into execution (run_id, namespace, state, blocked_from, version, sequence, priority,
                           ready_at, lease_owner, lease_epoch, plan_revision, step_states,
                           progress, wait, wait_ids, terminal, deadline_at, updated_at)
    select id, namespace, state, blocked_from, version, sequence, priority,
           ready_at, null, 0, plan_revision, step_states,
           progress::json, wait::json, wait_ids::uuid[], terminal::json, deadline_at, created_at
    from new
    where (id in (select id from made)) is true
),
-- Content that plans name by its digest.
content as (
    select * from unnest($34::uuid[], $35::text[], $36::bytea[]) as content (run_id, digest, body)
),
stored as (
    insert into artifact (digest, bytes, body, stored_at)
    select distinct on (digest) digest, octet_length(body), body, created_at
    from content join new on new.id = content.run_id join made using (id)
    order by digest
    on conflict on constraint artifact_pkey
        do update set stored_at = greatest(artifact.stored_at, excluded.stored_at)
),
used as (
    insert into artifact_use (run_id, digest)
    select distinct run_id, digest from content join made on made.id = content.run_id
),
written as (
    insert into journal (run_id, sequence, at, actor, entries, signature)
    select id, sequence, created_at, actor, entries, signature
    from new
    where (id in (select id from made)) is true
)
