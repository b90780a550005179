-- Forges repeat requests, and withdraw them.

-- The forge's own time of the last event that asked for the task; none where that is `happened_at`. A later event asks again
-- once the task has ended.
alter table task add column asked_at timestamptz;
-- The event that withdrew the request, such as closed_without_merge; empty where the forge withdrew nothing. Such a task
-- names itself in superseded_by.
alter table task add column withdrawn_by text not null default '';

-- What forges withdrew, so that a request that is older and arrives later makes no task. Kept as long as deliveries.
create table forge_withdrawal (
    forge       text        not null,
    repo        text        not null,
    number      bigint      not null,
    reason      text        not null,
    -- The accounts that are asked for nothing more, or that alone still are.
    accounts    text[]      not null,
    keeps       boolean     not null,
    happened_at timestamptz not null,
    constraint forge_withdrawal_pkey primary key (forge, repo, number, reason, happened_at, keeps, accounts)
);
create index forge_withdrawal_at on forge_withdrawal (happened_at);
