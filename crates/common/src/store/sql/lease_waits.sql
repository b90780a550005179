-- Leases waits to participants. Each lease has a fencing token that no other lease ever has.
with wanted as (
    select * from unnest($1::uuid[], $2::text[], $3::integer[]) as wanted (id, holder, lease_ms)
),
free as (
    select wait.id
    from wait
    join wanted on wanted.id = wait.id
    where lease_holder is null and answered_at is null and not withheld and lost_at is null
      -- What no participant had by its deadline was never begun.
      and (expires_at is null or expires_at > $4)
    -- Another service is leasing these rows.
    for update of wait skip locked
)
update wait
set lease_holder = wanted.holder,
    lease_epoch = nextval('wait_lease_epoch'),
    lease_ms = wanted.lease_ms,
    lease_expires_at = $4 + make_interval(secs => wanted.lease_ms / 1000.0),
    step_until = step_until + greatest(interval '0', $4 - free_since),
    free_ms = free_ms + greatest(0, extract(epoch from $4 - free_since) * 1000)::bigint
from wanted
join free on free.id = wanted.id
where wait.id = wanted.id
returning wait.id, wait.run_id, wait.lease_epoch, wait.lease_expires_at, wait.step_until
