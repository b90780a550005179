-- Makes a run with its plan, its execution and its first journal row, once for a request id.
with made as (
    insert into run (id, namespace, request_id, request_digest, goal, driver, workspace,
                     limits, policy, labels, trace_parent, created_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8::json, $9::json, $10::json, $11, $12)
    on conflict (namespace, request_id) where request_id <> '' do nothing
    returning id
),
planned as (
    insert into plan (run_id, revision, digest, parent_digest, reason, body, created_at)
    select id, 1, $13, '', $14, $15::json, $12 from made where $13::text is not null
),
executing as (
    insert into execution (run_id, namespace, state, blocked_from, version, sequence, priority,
                           ready_at, lease_owner, lease_epoch, plan_revision, step_states,
                           progress, wait, wait_ids, terminal, deadline_at, updated_at)
    select id, $2, $16, $17, 1, $18, $19, $20, null, 0, $21, $22,
           $23::json, $24::json, $29::uuid[], $25::json, $26, $12
    from made
),
written as (
    insert into journal (run_id, sequence, at, span_id, actor, entries)
    select id, $18, $12, $27, $30, $28::json from made
)
select id from made
