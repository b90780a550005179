-- The registry of the planner names the task types.
alter table task drop constraint task_type_known;

-- Runs of tasks that ended, and whose task has not. Every namespace that begins with `_` is one of tasks.
drop index execution_task_end;
create index execution_task_end on execution (run_id)
    where terminal is not null and not task_ended and starts_with(namespace, '_');

-- The language of each agent beside its messages: the registry may be in another database, which may be away.
create table mail_language (
    agent text primary key,
    language text not null
);
insert into mail_language (agent, language) select id, language from agent;
