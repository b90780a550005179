-- Messages between agents. Each is a task of the type `mail`, with the same id; this is what is beside it. Rows exist
-- only in the database of the namespace `_mail`.
create table mail (
    run_id         uuid        not null,
    -- The first message of the thread.
    thread_id      uuid        not null,
    in_reply_to    uuid,
    kind           text        not null,
    sender         text        collate "C" not null,
    receiver       text        collate "C" not null,
    subject        text        not null,
    body           text        not null,
    sent_at        timestamptz not null,
    deadline_at    timestamptz not null,
    -- The sender's idempotency key, and the digest of its request; empty for none.
    request_id     text        not null,
    request_digest text        not null,
    read_at        timestamptz,
    answered_at    timestamptz,
    -- What it waited for at its deadline in vain: a dead letter. Its run is ended next.
    failure        text        not null default '',
    failed_at      timestamptz,
    constraint mail_pkey primary key (run_id),
    constraint mail_kind_known check (kind in ('inform', 'request')),
    constraint mail_failure_known check (failure in ('', 'unread', 'unanswered')),
    constraint mail_failure_has_time check ((failure = '') = (failed_at is null)),
    constraint mail_answer_excludes_failure check (answered_at is null or failure <> 'unanswered')
);
create unique index mail_request_once on mail (sender, request_id) where request_id <> '';
create index mail_inbox on mail (receiver, run_id desc);
create index mail_sent on mail (sender, run_id desc);
create index mail_thread on mail (thread_id, run_id);
create index mail_unread on mail (receiver) where read_at is null and failure = '';
create index mail_open on mail (deadline_at)
    where failure = '' and ((kind = 'inform' and read_at is null) or (kind = 'request' and answered_at is null));
create index mail_failed on mail (failed_at) where failure <> '';
