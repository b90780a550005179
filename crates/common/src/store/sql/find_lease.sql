-- The wait that a participant has leased. The time since an expiry that no scan has found yet is without a lease, too; a pause
-- is given back by its end.
select id, lease_expires_at, answered_at is not null,
       free_ms + case when withheld or lease_expires_at is null then 0
                 else greatest(0, extract(epoch from $4 - greatest(lease_expires_at, free_since)) * 1000)::bigint end
from wait
where run_id = $1 and lease_epoch = $2 and starts_with(lease_holder, $3 || ' ')
