-- Runs with a timer that is due, the earliest first: the id of a timer is made of its time.
select run_id
from wait
where kind = 'timer'
  and id < $1
  and run_id <> all($3)
order by id
limit $2
