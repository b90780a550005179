-- The wait for the next decision of a run.
select id, lease_epoch, lease_holder is not null as is_leased
from wait
where run_id = $1 and kind in ('decision', 'model_decision') and answered_at is null
order by opened_at
limit 1
