-- Deliveries of webhooks. Both tables have rows only where a planner has webhooks.

-- Until when a webhook's events are noted. Events before its first row are not delivered.
create table webhook (
    name       text        not null,
    seen_until timestamptz not null,
    constraint webhook_pkey primary key (name)
);

create table webhook_delivery (
    webhook         text        not null,
    event           text        not null,
    -- The wait that opened, or the run that ended.
    subject         uuid        not null,
    run_id          uuid        not null,
    -- watched: the run has not ended. due: to be sent at next_attempt_at. done: sent, obsolete or given up;
    -- kept for a while, so that the event is not noted again.
    state           text        not null,
    noted_at        timestamptz not null,
    attempts        integer     not null default 0,
    next_attempt_at timestamptz,
    constraint webhook_delivery_pkey primary key (webhook, event, subject),
    constraint webhook_delivery_event_known check (event in ('wait.opened', 'run.ended')),
    constraint webhook_delivery_state_known check (state in ('watched', 'due', 'done')),
    constraint webhook_delivery_due_has_time check ((state = 'due') = (next_attempt_at is not null))
);
create index webhook_delivery_due on webhook_delivery (next_attempt_at) where state = 'due';
create index webhook_delivery_watched on webhook_delivery (subject) where state = 'watched';
create index webhook_delivery_done on webhook_delivery (noted_at) where state = 'done';

-- Only waits of people: a wait of a driver costs no more than before.
create index wait_of_people on wait (namespace, opened_at)
    where kind in ('question', 'confirmation', 'acceptance', 'budget');
