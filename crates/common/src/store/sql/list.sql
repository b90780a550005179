-- A page of runs, and the number of rows it was chosen from: the runs that fit into the page size
-- and one more, so that a run of any size is listed.
--
-- The columns are named, because a statement prepared with `*` fails in older processes once a
-- newer program's migration adds a column.
with chosen as (
    select run_id,
           count(*) over () as found,
           sum(size) over (order by run_id desc rows unbounded preceding) - size as before
    from (
        select run.id as run_id,
               octet_length(run.goal) + octet_length(run.labels::text)
                   + octet_length(execution.progress::text)
                   + coalesce(octet_length(execution.wait::text), 0)
                   + coalesce(octet_length(execution.terminal::text), 0) as size
        from run
        join execution on execution.run_id = run.id
        where ($1 = '' or run.namespace = $1)
          and (cardinality($2::text[]) = 0 or execution.state = any($2))
          and ($3::uuid is null or run.id < $3)
          and (cardinality($7::text[]) = 0 or run.namespace = any($7))
          -- Each filter repeats the expression of its index.
          and ($5::jsonb = '{}'::jsonb or (run.labels <> '{}'::jsonb and run.labels @> $5::jsonb))
          and (cardinality($8::text[]) = 0
               or (execution.terminal is not null
                   and split_part(execution.terminal::text, '"', 4) = any($8)))
          -- A run has a deadline until it ends.
          and (not $11::boolean or execution.deadline_at is not null)
          and ($9::timestamptz is null or run.created_at >= $9)
          and ($10::timestamptz is null or run.created_at < $10)
          -- Ids grow with time: the ranges of ids hold all runs of the times above.
          and ($12::uuid is null or run.id >= $12)
          and ($13::uuid is null or run.id < $13)
        order by run.id desc
        limit $4
    ) as page
)
select execution.run_id, execution.namespace, execution.state, execution.blocked_from,
       execution.version, execution.sequence, execution.priority, execution.ready_at,
       execution.lease_owner, execution.lease_epoch, execution.plan_revision,
       execution.step_states, execution.progress, execution.wait, execution.terminal,
       execution.deadline_at, execution.updated_at, execution.host_label,
       run.request_id, run.goal, run.driver, run.workspace, run.limits::text as limits,
       run.policy::text as policy, run.labels::text as labels, run.trace_parent, run.created_at,
       run.forked_from::text as forked_from,
       run.repository::text as repository,
       null::text as plan_body, null::text as plan_digest, chosen.found
from chosen
join run on run.id = chosen.run_id
join execution on execution.run_id = chosen.run_id
where chosen.before <= $6
order by run.id desc
