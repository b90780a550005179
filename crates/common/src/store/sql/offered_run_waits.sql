-- The offered waits of the runs that participants name, the most urgent first.
select id, run_id, namespace, coalesce(labels, '{}'::jsonb) as labels
from wait
where run_id = any($2)
  and lease_holder is null and answered_at is null and not withheld
  and kind = $1
  and (offered_at is null or offered_at <= $4)
  and namespace = any($3)
order by priority desc, opened_at
