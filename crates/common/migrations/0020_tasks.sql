-- Tasks: runs that an event of a forge, or another task, asked for. A task's row is stored before its run, in the
-- transaction that decides that there is one; a planner then makes the run under the same id. Whatever stands
-- between the two after a crash is made by the next planner.

-- Who acts on tasks. The id is the name of the identity under which the agent calls.
create table agent (
    id          text        collate "C" not null,
    roles       text[]      not null,
    -- Of the instructions.
    language    text        not null,
    -- How many open tasks the agent has before tasks of a role go to another one.
    concurrency integer     not null,
    -- The name of a configured secret: the agent's own credential of the forge; empty for none.
    credential  text        not null,
    updated_at  timestamptz not null,
    updated_by  text        not null,
    constraint agent_pkey primary key (id),
    constraint agent_id_filled check (id <> ''),
    constraint agent_roles_known check (roles <@ array['reviewer', 'developer', 'coordinator', 'infra']),
    constraint agent_language_known check (language in ('en', 'zh')),
    constraint agent_concurrency_positive check (concurrency > 0)
);

-- The accounts of agents. Forges compare logins without their case, so they are stored in lower case.
create table agent_account (
    forge    text not null,
    login    text collate "C" not null,
    agent_id text collate "C" not null,
    constraint agent_account_pkey primary key (forge, login),
    constraint agent_account_of_agent foreign key (agent_id) references agent (id) on delete cascade,
    constraint agent_account_forge_known check (forge in ('gitea', 'forgejo', 'github')),
    constraint agent_account_lower check (login = lower(login) and login <> '')
);
create index agent_account_by_agent on agent_account (agent_id);

create table task (
    -- The id of its run.
    run_id            uuid        not null,
    task_type         text        not null,
    namespace         text        collate "C" not null,
    -- Digest of what makes the event this one: a repetition under another delivery id has the same.
    event_key         text        not null,
    -- The delivery and the place in it; empty for tasks that the service made.
    origin_key        text        not null,
    event_type        text        not null,
    action_type       text        not null,
    -- The forge, and what the event is about; empty where it is about nothing on a forge.
    forge             text        not null,
    repo              text        not null,
    number            bigint,
    is_pull_request   boolean     not null,
    -- The forge's own time of the event.
    happened_at       timestamptz not null,
    -- Whom the event asks: 'account NAME' or 'role NAME'.
    addressee         text        not null,
    -- The agent that must act; empty while there is none.
    assignee          text        collate "C" not null,
    payload           text        not null,
    -- Exactly what the assignee is handed.
    instructions      text        not null,
    -- Accepted without waking an agent.
    is_notice         boolean     not null,
    -- The first task of the chain, and the task whose failure made this one.
    chain_id          uuid        not null,
    caused_by         uuid,
    -- From 1.
    depth             integer     not null,
    -- Business failures in a row before this task.
    business_failures integer     not null,
    created_at        timestamptz not null,
    -- When its run was made; none before.
    started_at        timestamptz,
    -- The task is handed again at this time; none while its clock stops.
    remind_at         timestamptz,
    remind_after_s    bigint      not null,
    reminders         integer     not null default 0,
    -- What the assignee waits for, in its own words: its part is done, and the clock stops.
    waiting_for       text        not null default '',
    -- When the report was stored that ends the step; none before.
    reported_at       timestamptz,
    -- The task whose event made this one out of date; its run is cancelled next.
    superseded_by     uuid,
    ended_at          timestamptz,
    -- How it ended: accepted, failed, superseded, cancelled; empty before.
    outcome           text        not null default '',
    failure           text        not null default '',
    failure_class     text        not null default '',
    constraint task_pkey primary key (run_id),
    constraint task_type_known check (task_type in ('toolchain', 'mail')),
    constraint task_depth_positive check (depth > 0),
    constraint task_end_says_how check ((ended_at is null) = (outcome = '')),
    constraint task_outcome_known check (outcome in ('', 'accepted', 'failed', 'superseded', 'cancelled')),
    constraint task_failure_of_failed check ((outcome = 'failed') = (failure <> ''))
);
create unique index task_event_once on task (event_key, namespace);
create index task_by_assignee on task (assignee, run_id desc);
create index task_newest on task (namespace, run_id desc);
create index task_of_subject on task (forge, repo, number);
create index task_of_chain on task (chain_id);
create index task_open on task (run_id) where ended_at is null;
create index task_of_assignee on task (assignee) where ended_at is null;
create index task_unstarted on task (run_id) where started_at is null;
create index task_reported on task (run_id) where reported_at is not null and ended_at is null;
create index task_superseded on task (run_id) where superseded_by is not null and ended_at is null;
create index task_reminder on task (remind_at) where remind_at is not null and ended_at is null;

-- The history of tasks: what agents and the service wrote.
create table task_entry (
    run_id     uuid        not null,
    -- Grows with time, with gaps.
    sequence   bigint      generated always as identity,
    -- The kinds are checked by the program, so that a new one needs no migration.
    kind       text        not null,
    author     text        collate "C" not null,
    body       text        not null,
    links      text[]      not null,
    -- The name of an output that the body is, such as fix-plan.md; empty for none.
    attachment text        not null,
    at         timestamptz not null,
    constraint task_entry_pkey primary key (run_id, sequence)
);

-- What the service writes on a forge because a task failed. The row is the intent: it is stored before the call, in
-- the transaction that ends the task, and a marker with the run's id is looked for on the forge before each attempt.
create table escalation (
    run_id          uuid        not null,
    action          text        not null,
    chain_id        uuid        not null,
    forge           text        not null,
    repo            text        not null,
    number          bigint,
    is_pull_request boolean     not null,
    -- The account that a comment mentions, or to which an issue is assigned; empty for none.
    account         text        not null,
    title           text        not null,
    body            text        not null,
    state           text        not null,
    attempts        integer     not null default 0,
    next_attempt_at timestamptz,
    noted_at        timestamptz not null,
    ended_at        timestamptz,
    -- The address of what was written: the receipt.
    address         text        not null default '',
    error           text        not null default '',
    constraint escalation_pkey primary key (run_id, action),
    constraint escalation_action_known check (action in ('comment', 'issue')),
    constraint escalation_state_known check (state in ('due', 'done', 'failed')),
    constraint escalation_due_has_time check ((state = 'due') = (next_attempt_at is not null)),
    constraint escalation_end_has_time check ((state = 'due') = (ended_at is null))
);
create index escalation_due on escalation (next_attempt_at) where state = 'due';
