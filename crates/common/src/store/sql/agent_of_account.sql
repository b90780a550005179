-- The agent of an account.
select agent.id, agent.language
from agent_account
join agent on agent.id = agent_account.agent_id
where agent_account.forge = $1 and agent_account.login = lower($2)
