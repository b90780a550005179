-- An agent with a role: one that has room for another task, with the fewest open tasks. The agent of the account
-- that caused the event is left out: an author does not review.
select agent.id, agent.language
from agent
cross join lateral (
    select count(*) as tasks
    from task
    where task.assignee = agent.id and task.ended_at is null
) as open
where $1 = any(agent.roles)
  and not exists (
      select from agent_account
      where agent_account.agent_id = agent.id and agent_account.forge = $2 and agent_account.login = lower($3))
order by open.tasks >= agent.concurrency, open.tasks, agent.id
limit 1
