-- The task about the failed build of a commit: an open one, else the one that was asked for last.
select run_id, coalesce(asked_at, happened_at) as asked_at, ended_at is null and superseded_by is null as is_open,
       number is not null as has_pull, addressee, assignee, coalesce(outcome, '') = 'accepted' as is_accepted,
       reported_at is not null as is_reported
from task
where forge = $1 and repo = $2 and build_commit = $3 and build_commit <> ''
  and (server = $4 or server = '' or $4 = '')
order by is_open desc, has_pull desc, coalesce(asked_at, happened_at) desc
limit 1
