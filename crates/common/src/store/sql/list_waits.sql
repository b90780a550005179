-- A page of waiting runs, and the number of rows it was chosen from: the runs that fit into the
-- page size and one more, so that a run of any size is listed.
--
-- The columns are named, because a statement prepared with `*` fails in older processes once a
-- newer program's migration adds a column.
with waiting as (
    -- In the order of wait_by_run, so that a page reads no more waits than it needs. As bounds, an id that is not named leaves
    -- the index usable.
    select distinct run_id
    from wait
    where answered_at is null
      and run_id >= coalesce($2, '00000000-0000-0000-0000-000000000000'::uuid)
      and run_id <= coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      and run_id > coalesce($3, '00000000-0000-0000-0000-000000000000'::uuid)
      and ($1 = '' or namespace = $1)
      and (cardinality($6::text[]) = 0 or namespace = any($6))
),
chosen as (
    select run_id,
           count(*) over () as found,
           sum(size) over (order by run_id rows unbounded preceding) - size as before
    from (
        select execution.run_id,
               octet_length(run.goal) + octet_length(run.labels::text)
                   + octet_length(execution.progress::text)
                   + coalesce(octet_length(execution.wait::text), 0) as size
        from waiting
        join execution on execution.run_id = waiting.run_id
        join run on run.id = execution.run_id
        where ($1 = '' or execution.namespace = $1)
          and (cardinality($6::text[]) = 0 or execution.namespace = any($6))
        order by waiting.run_id
        limit $4
    ) as page
)
select execution.run_id, execution.namespace, execution.state, execution.blocked_from,
       execution.version, execution.sequence, execution.priority, execution.ready_at,
       execution.lease_owner, execution.lease_epoch, execution.plan_revision,
       execution.step_states, execution.progress, execution.wait, execution.terminal,
       execution.deadline_at, execution.updated_at,
       run.request_id, run.goal, run.driver, run.workspace, run.limits::text as limits,
       run.policy::text as policy, run.labels::text as labels, run.trace_parent, run.created_at,
       run.forked_from::text as forked_from,
       run.repository::text as repository,
       null::text as plan_body, plan.digest as plan_digest, chosen.found
from chosen
join execution on execution.run_id = chosen.run_id
join run on run.id = chosen.run_id
left join plan on plan.run_id = execution.run_id and plan.revision = execution.plan_revision
where chosen.before <= $5
order by execution.run_id
