-- Leases runs that wait, and returns all that is needed to start them.
--
-- A queue holds the waiting runs of one namespace and one priority, in the order of readiness. The
-- caller names each queue with the time where its scan begins: index entries of claimed runs stay
-- until a vacuum, and a scan from the front would read them all.
--
-- A run on a local folder belongs to the host label of its first claim: only executors with that label claim it again. Such
-- runs have an index of their own, so that those of other hosts are not read.
with own as materialized (
    select (select host_label from executor where id = $3) as host_label
),
waiting as materialized (
    select queue.held, queue.turn, run.*
    from unnest($4::text[], $5::smallint[], $6::timestamptz[], $7::integer[], $8::integer[],
                $9::integer[]) as queue (namespace, priority, since, most, held, turn)
    cross join lateral (
        select run_id, namespace, priority, ready_at
        from execution
        where ready_at is not null
          and lease_owner is null
          and namespace = queue.namespace
          and priority = queue.priority
          and ready_at >= queue.since
          and run_id <> all($10)
          and host_label is null
        order by ready_at
        limit queue.most
        -- Other claims skip these rows; those not chosen below are unlocked by the commit.
        for update skip locked
    ) as run
    union all
    select queue.held, queue.turn, run.*
    from unnest($4::text[], $5::smallint[], $6::timestamptz[], $7::integer[], $8::integer[],
                $9::integer[]) as queue (namespace, priority, since, most, held, turn)
    cross join lateral (
        select run_id, namespace, priority, ready_at
        from execution
        where ready_at is not null
          and lease_owner is null
          and namespace = queue.namespace
          and priority = queue.priority
          and ready_at >= queue.since
          and run_id <> all($10)
          and host_label = (select own.host_label from own)
        order by ready_at
        limit queue.most
        for update skip locked
    ) as run
    -- Read once: most claims find no run of their host, and then look into no queue for one. Not `exists`, which the database
    -- may read without the index where it expects many such runs.
    where (
        select run_id
        from execution
        where ready_at is not null and lease_owner is null and host_label = (select own.host_label from own)
        order by namespace, priority, ready_at
        limit 1) is not null
),
-- Within a namespace priority comes first, but one slot in eight goes to the oldest run.
urgent as (
    select run_id, namespace, ready_at, held,
           least(row_number() over (partition by namespace order by priority desc, ready_at),
                 8 * row_number() over (partition by namespace order by ready_at) - turn) as place
    from waiting
),
-- Between namespaces the one that holds the fewest slots comes first.
fair as (
    select run_id
    from urgent
    order by held + row_number() over (partition by namespace order by place, ready_at), ready_at
    limit $2
),
leased as (
    update execution
    set lease_owner = $3,
        lease_epoch = lease_epoch + 1,
        version = version + 1,
        updated_at = $1,
        host_label = case
            when run.workspace <> '' and run.repository is null
                then coalesce(execution.host_label, (select own.host_label from own))
        end
    from fair
    join run on run.id = fair.run_id
    where execution.run_id = fair.run_id
    returning execution.run_id, execution.namespace, execution.state, execution.blocked_from,
              execution.version, execution.sequence, execution.priority, execution.ready_at,
              execution.lease_owner, execution.lease_epoch, execution.plan_revision,
              execution.step_states, execution.progress, execution.wait, execution.terminal,
              execution.deadline_at, execution.updated_at, execution.host_label
)
select leased.run_id, leased.namespace, leased.state, leased.blocked_from, leased.version,
       leased.sequence, leased.priority, leased.ready_at, leased.lease_owner, leased.lease_epoch,
       leased.plan_revision, leased.step_states, leased.progress, leased.wait, leased.terminal,
       leased.deadline_at, leased.updated_at, leased.host_label,
       run.request_id, run.goal, run.driver, run.workspace, run.limits::text as limits,
       run.policy::text as policy, run.labels::text as labels, run.trace_parent, run.created_at,
       run.forked_from::text as forked_from,
       run.repository::text as repository,
       plan.body as plan_body, plan.digest as plan_digest
from leased
join run on run.id = leased.run_id
left join plan on plan.run_id = leased.run_id and plan.revision = leased.plan_revision
