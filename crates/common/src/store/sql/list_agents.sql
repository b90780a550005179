-- Agents with their accounts: all, or those with these ids.
select agent.id, agent.roles, agent.language, agent.concurrency, agent.credential, agent.driver,
       coalesce(array_agg(account.forge order by account.forge, account.login)
                filter (where account.login is not null), '{}') as forges,
       coalesce(array_agg(account.login order by account.forge, account.login)
                filter (where account.login is not null), '{}') as logins
from agent
left join agent_account as account on account.agent_id = agent.id
where $1::text[] is null or agent.id = any($1)
group by agent.id
order by agent.id
limit $2
