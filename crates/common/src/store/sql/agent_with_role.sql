-- An agent with a role: one that has room for another task, with the fewest open tasks. The agents of the accounts in $3 and
-- those in $4 are left out: an author does not review.
select agent.id, agent.language
from agent
cross join lateral (
    select count(*) as tasks
    from task
    where task.assignee = agent.id and task.ended_at is null
) as open
where $1 = any(agent.roles)
  and not agent.id = any($4)
  and not exists (
      select from agent_account
      where agent_account.agent_id = agent.id and agent_account.forge = $2 and agent_account.login = any($3))
order by open.tasks >= agent.concurrency, open.tasks, agent.id
limit 1
