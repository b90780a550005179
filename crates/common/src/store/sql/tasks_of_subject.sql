-- The tasks about one pull request or issue, for the order of events. Only of reviews, of pushed commits and of builds the
-- payload is read.
select run_id, action_type, is_pull_request, addressee, assignee, happened_at,
       coalesce(asked_at, happened_at) as asked_at, created_at, ended_at, chain_id, depth,
       ended_at is null and superseded_by is null as is_open,
       case when action_type in ('ci_failure', 'review_request', 'review_result', 'review_updated') then payload else '' end as payload
from task
where forge = $1 and repo = $2 and number = $3
  -- Rows of earlier versions name no server, and neither do some deliveries.
  and (server = $4 or server = '' or $4 = '')
