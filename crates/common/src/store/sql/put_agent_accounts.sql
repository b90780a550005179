-- Sets the accounts of an agent. Returns how many of them belong to another agent.
with wanted as (
    select * from unnest($2::text[], $3::text[]) as wanted (forge, login)
),
dropped as (
    delete from agent_account
    where agent_id = $1 and (forge, login) not in (select forge, login from wanted)
),
added as (
    insert into agent_account (forge, login, agent_id)
    select forge, login, $1 from wanted
    -- An account of this agent is written again, so that it counts as stored; one of another agent is not.
    on conflict on constraint agent_account_pkey do update
        set agent_id = excluded.agent_id
        where agent_account.agent_id = excluded.agent_id
    returning forge
)
select (select count(*) from wanted) - (select count(*) from added)
