-- Runs, each with the beginning of its journal, from one snapshot. A journal is read only if its
-- run is being verified, and only its beginning, so that one statement can read many. The rest is
-- read in pages. Signatures are read only where they are checked.
select wanted.place, execution.run_id, execution.namespace, execution.state, execution.blocked_from,
       execution.version, execution.sequence, execution.priority, execution.ready_at,
       execution.lease_owner, execution.lease_epoch, execution.plan_revision,
       execution.step_states, execution.progress, execution.wait, execution.terminal,
       execution.deadline_at, execution.updated_at,
       run.request_id, run.goal, run.driver, run.workspace, run.limits::text as limits,
       run.policy::text as policy, run.labels::text as labels, run.trace_parent, run.created_at,
       run.forked_from::text as forked_from,
       run.repository::text as repository,
       plan.body as plan_body, plan.digest as plan_digest,
       run.submitter, plan.created_at as plan_created_at, plan.parent_digest as plan_parent_digest,
       plan.reason as plan_reason, found.signatures,
       found.sequences, found.times, found.actors, found.entries
from unnest($1::uuid[]) with ordinality as wanted (run_id, place)
join execution on execution.run_id = wanted.run_id
join run on run.id = execution.run_id
left join plan on plan.run_id = execution.run_id and plan.revision = execution.plan_revision
cross join lateral (
    select coalesce(array_agg(row.sequence), '{}') as sequences,
           coalesce(array_agg(row.at), '{}') as times,
           coalesce(array_agg(row.actor), '{}') as actors,
           coalesce(array_agg(row.entries), '{}') as entries,
           coalesce(array_agg(case when $5 then row.signature end), '{}') as signatures
    from (
        select sequence, at, actor, entries, signature,
               sum(octet_length(entries)) over (order by sequence rows unbounded preceding) as bytes
        from (
            select sequence, at, actor, entries, signature
            from journal
            where journal.run_id = wanted.run_id
              and execution.state = $2
            order by sequence
            limit $3
        ) as row
        order by sequence
    ) as row
    where row.bytes <= $4
) as found
