-- The tasks about one pull request or issue, for the order of events.
select run_id, action_type, is_pull_request, addressee, happened_at,
       ended_at is null and superseded_by is null as is_open
from task
where forge = $1 and repo = $2 and number = $3
