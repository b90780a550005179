-- What a forge withdrew about one pull request or issue.
select reason, accounts, keeps, happened_at
from forge_withdrawal
where forge = $1 and repo = $2 and number = $3
  -- Rows of earlier versions name no server, and neither do some deliveries.
  and (server = $4 or server = '' or $4 = '')
