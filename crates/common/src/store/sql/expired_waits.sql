select distinct run_id
from (
    select run_id
    from wait
    where expires_at is not null and expires_at <= $1
      and run_id <> all($3)
    order by expires_at
    limit $2
) as over
