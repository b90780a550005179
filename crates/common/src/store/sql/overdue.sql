select run_id
from execution
where deadline_at is not null and deadline_at <= $1
  and run_id <> all($3)
order by deadline_at
limit $2
