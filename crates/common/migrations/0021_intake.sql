-- Hooks of forges and their deliveries. A delivery is stored in one transaction before it is answered, and becomes
-- tasks afterwards. Rows exist only in the database of the namespace `_toolchain`.

-- Where forges send deliveries: POST /webhooks/FORGE/NAME.
create table hook (
    name        text        collate "C" not null,
    -- Decides how deliveries are read; no header does.
    forge       text        not null,
    -- The names of configured secrets that sign deliveries, never their values. Two while one replaces the other.
    secrets     text[]      not null,
    -- Deliveries are taken without a signature, on loopback and by setting only.
    is_unsigned boolean     not null,
    updated_at  timestamptz not null,
    updated_by  text        not null,
    constraint hook_pkey primary key (name),
    constraint hook_named check (name <> ''),
    constraint hook_forge_known check (forge in ('gitea', 'forgejo', 'github')),
    constraint hook_signed_or_unsigned check (
        cardinality(secrets) <= 2 and is_unsigned = (cardinality(secrets) = 0))
);

create table forge_delivery (
    -- A UUIDv7: in the order of arrival.
    id              uuid        not null,
    hook            text        collate "C" not null,
    forge           text        not null,
    -- The forge's own id of the delivery, or the digest of one that came without an id.
    delivery_id     text        collate "C" not null,
    -- The event, by the forge's header; empty where it sent none.
    event           text        not null,
    -- JSON of the headers that describe the delivery. Signatures, tokens and cookies are left out.
    headers         text        not null,
    -- The body as it was signed.
    body            bytea       not null,
    -- SHA-256 of the event and the body: a repetition under another id has the same.
    digest          bytea       not null,
    received_at     timestamptz not null,
    -- stored: to be processed at next_attempt_at. processed: became tasks. ignored: asks for nothing, with the reason.
    -- refused: has no usable payload, with the problem. repeated: has the content of an earlier one. failed: no attempt
    -- to make its tasks succeeded.
    state           text        not null,
    reason          text        not null default '',
    -- What is wrong, in a sentence.
    problem         text        not null default '',
    -- The tasks that it made, and how many more of its events were there already.
    tasks           uuid[]      not null default '{}',
    attempts        integer     not null default 0,
    -- How often an operator had it processed again.
    replays         integer     not null default 0,
    next_attempt_at timestamptz,
    processed_at    timestamptz,
    constraint forge_delivery_pkey primary key (id),
    constraint forge_delivery_state_known check (
        state in ('stored', 'processed', 'ignored', 'refused', 'repeated', 'failed')),
    constraint forge_delivery_stored_has_time check ((state = 'stored') = (next_attempt_at is not null)),
    constraint forge_delivery_digest_whole check (octet_length(digest) = 32)
);
-- The same id is stored once, on whichever planner it arrives.
create unique index forge_delivery_once on forge_delivery (hook, delivery_id);
create index forge_delivery_due on forge_delivery (next_attempt_at) where state = 'stored';
create index forge_delivery_content on forge_delivery (digest, id);
create index forge_delivery_received on forge_delivery (received_at) where state <> 'stored';
