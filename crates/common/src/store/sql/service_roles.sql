-- The roles of the services and their rights. Everything can be carried out again.
do $$
declare
    service text;
begin
    foreach service in array array['surety_planner', 'surety_executor', 'surety_gate'] loop
        if not exists (select from pg_roles where rolname = service) then
            begin
                execute format('create role %I login', service);
            exception when duplicate_object or unique_violation then
                null; -- Another database of the server was given its roles at the same time.
            end;
        end if;
        execute format('grant usage on schema %I to %I', current_schema(), service);
        execute format('grant connect on database %I to %I', current_database(), service);
    end loop;
end
$$;

-- Every service reads all rows; only the owner changes the schema. No service needs a temporary table, which would come first in
-- the search for a name.
revoke create on schema public from public;
do $$
begin
    execute format('revoke temporary on database %I from public', current_database());
exception when insufficient_privilege then
    null; -- The database has another owner. What the rules of rows name has its schema.
end
$$;
revoke all on all tables in schema public from surety_planner, surety_executor, surety_gate;
grant select on all tables in schema public to surety_planner, surety_executor, surety_gate;
grant usage on all sequences in schema public to surety_planner, surety_executor, surety_gate;

-- Only the planner stores tokens; the others note the times of their use. Each service registers the key that it signs with.
grant insert, update on token to surety_planner;
grant update (last_used_at) on token to surety_executor, surety_gate;
grant insert, update (valid_until) on signing_key to surety_planner, surety_executor, surety_gate;

-- The run of a row and its namespace are set once. Every service moves runs and takes their locks.
do $$
declare
    moved constant text := 'state, blocked_from, version, sequence, priority, ready_at, lease_owner, lease_epoch, '
        || 'plan_revision, step_states, progress, wait, wait_ids, terminal, deadline_at, updated_at';
begin
    execute format('grant update (%s) on execution to surety_planner, surety_executor, surety_gate', moved);
end
$$;

-- The planner stores runs, plans, what persons say, and what is administered, and deletes what is kept no longer.
grant insert, delete on run, plan to surety_planner;
grant insert, delete, update (task_ended) on execution to surety_planner;
grant insert, delete, update (stored_at) on artifact to surety_planner;
grant insert, delete on artifact_use to surety_planner;
grant insert, update, delete on wait, request_outcome, namespace_policy, namespace_overlay, webhook, webhook_delivery,
    worker_tool, workspace_lock, executor to surety_planner;
grant insert on audit to surety_planner;
grant insert, update, delete on task, escalation, agent, agent_account, hook, forge_delivery, forge_withdrawal, mail, mail_language
    to surety_planner;
grant insert, delete on task_entry to surety_planner;
grant insert, delete on journal to surety_planner;
grant delete on verdict, anchor, anchored_verdict to surety_planner;

-- The executor works on runs and records what it did. It changes no content: storing it again notes the time of use.
grant update (host_label) on execution to surety_executor;
grant insert on journal, artifact, artifact_use to surety_executor;
grant update (stored_at) on artifact to surety_executor;
grant insert, delete, update (answered_at, withheld, lease_holder, lease_epoch, lease_expires_at, lease_ms, free_since,
    free_ms, offered_at, lost_at, progress, progress_percent, step_until) on wait to surety_executor;
grant insert, update on workspace_lock, request_outcome to surety_executor;
grant insert, update, delete on executor, worker_tool, shown_tool, shown_server_tool to surety_executor;
-- The reports of tasks that are worked on in runs.
grant insert on task_entry to surety_executor;
grant update (reported_at, remind_at, waiting_for) on task to surety_executor;

-- The gate moves runs by its verdicts, and asks persons.
grant insert on journal, verdict, anchor, anchored_verdict, anchoring to surety_gate;
grant insert, delete, update (answered_at, withheld, free_since, free_ms, step_until) on wait to surety_gate;

-- The functions name types with their schema: a session may have a temporary type of the same name.

-- Whether every receipt among entries is what a person said.
create or replace function journal_receipts_are_said(entries text) returns boolean
language sql immutable parallel safe as $$
    select not exists (
        select from json_array_elements(entries::pg_catalog.json) as change, json_array_elements(change) as entry
        where json_typeof(entry) = 'object'
          and entry -> 'receipt' is not null
          and (coalesce(entry -> 'receipt' ->> 'source', '') not in ('approval', 'user_reply')
               or exists (
                   select from json_array_elements(entry -> 'receipt' -> 'facts') as fact
                   where fact ->> 'fact' is distinct from 'output')))
$$;

-- Whether an entry, or a receipt among entries, records what a person told the planner: an answer, an approval, a revoked
-- grant. The use of a grant, and an answer that did not come in time, are the executor's.
create or replace function journal_has_reply_of_person(entries text) returns boolean
language sql immutable parallel safe as $$
    select exists (
        select from json_array_elements(entries::pg_catalog.json) as change, json_array_elements(change) as entry
        where json_typeof(entry) = 'object'
          and (entry -> 'answer' is not null and entry -> 'answer' ->> 'by' is distinct from 'clock'
               or (entry -> 'receipt' ->> 'source' = 'approval'
                   or entry -> 'receipt' ->> 'source' = 'user_reply' and entry -> 'receipt' ->> 'name' = 'ask_user')
                  and entry -> 'receipt' ->> 'name' is distinct from 'use_grant'
                  and exists (
                      select from json_array_elements(entry -> 'receipt' -> 'facts') as fact
                      where fact ->> 'key' = 'by')))
$$;

-- Whether an entry of this kind is among entries.
create or replace function journal_has(entries text, kind text) returns boolean
language sql immutable parallel safe as $$
    select exists (
        select from json_array_elements(entries::pg_catalog.json) as change, json_array_elements(change) as entry
        where json_typeof(entry) = 'object' and entry -> kind is not null)
$$;

-- Whether a word can be a text among entries: as it is, or with an escape. Postgres reads the whole text anew in each of the
-- functions above, which costs more than the signature of the row, so they are asked only where this holds.
create or replace function journal_may_say(entries text, word text) returns boolean
language sql immutable parallel safe as $$
    select strpos(entries, '"' || word || '"') > 0 or strpos(entries, '\u') > 0
$$;

-- A service registers and ends keys of its own only: a person who pins a key by its id trusts it for that service.
alter table signing_key enable row level security;
drop policy if exists signing_key_is_read on signing_key;
create policy signing_key_is_read on signing_key for select
    to surety_planner, surety_executor, surety_gate using (true);
do $$
declare
    service text;
begin
    foreach service in array array['planner', 'executor', 'gate'] loop
        execute format('drop policy if exists signing_key_of_%1$s on signing_key', service);
        execute format('create policy signing_key_of_%1$s on signing_key for insert to surety_%1$s '
            'with check (service = %1$L)', service);
        execute format('drop policy if exists signing_key_ended_by_%1$s on signing_key', service);
        execute format('create policy signing_key_ended_by_%1$s on signing_key for update to surety_%1$s '
            'using (service = %1$L)', service);
    end loop;
end
$$;

-- Only the executor appends receipts, besides those of what persons said to the planner; only the gate verdicts. The
-- owner of the table is not bound.
alter table journal enable row level security;
drop policy if exists journal_is_read on journal;
create policy journal_is_read on journal for select
    to surety_planner, surety_executor, surety_gate using (true);
drop policy if exists journal_of_planner on journal;
create policy journal_of_planner on journal for insert to surety_planner
    with check ((not journal_may_say(entries, 'receipt') or journal_receipts_are_said(entries))
                and (not journal_may_say(entries, 'verdict') or not journal_has(entries, 'verdict')));
drop policy if exists journal_of_executor on journal;
create policy journal_of_executor on journal for insert to surety_executor
    with check ((not journal_may_say(entries, 'verdict') or not journal_has(entries, 'verdict'))
                and (not (journal_may_say(entries, 'answer') or journal_may_say(entries, 'approval')
                          or journal_may_say(entries, 'user_reply'))
                     or not journal_has_reply_of_person(entries)));
drop policy if exists journal_of_gate on journal;
create policy journal_of_gate on journal for insert to surety_gate
    with check ((not journal_may_say(entries, 'receipt') or not journal_has(entries, 'receipt'))
                and (not journal_may_say(entries, 'answer') or not journal_has(entries, 'answer')));
drop function if exists journal_has_told(text);
drop policy if exists journal_is_forgotten on journal;
create policy journal_is_forgotten on journal for delete to surety_planner using (true);

-- The executor writes reports into the history of a task and nothing else; no service changes an entry.
alter table task_entry enable row level security;
drop policy if exists task_entry_is_read on task_entry;
create policy task_entry_is_read on task_entry for select
    to surety_planner, surety_executor, surety_gate using (true);
drop policy if exists task_entry_of_planner on task_entry;
create policy task_entry_of_planner on task_entry for insert to surety_planner with check (true);
drop policy if exists task_entry_of_executor on task_entry;
create policy task_entry_of_executor on task_entry for insert to surety_executor
    with check (kind = 'action_report');
drop policy if exists task_entry_is_forgotten on task_entry;
create policy task_entry_is_forgotten on task_entry for delete to surety_planner using (true);

-- Partitions of the journal: the planner deletes expired rows in them; rows are inserted by way of the journal only.
do $$
declare
    part regclass;
begin
    for part in select inhrelid::regclass from pg_inherits where inhparent = 'journal'::regclass loop
        execute format('grant delete on %s to surety_planner', part);
    end loop;
end
$$;
alter default privileges in schema public
    grant select on tables to surety_planner, surety_executor, surety_gate;
alter default privileges in schema public grant delete on tables to surety_planner;
