-- Who created the run: the name of the identity, by which a submitter reaches its own runs only.
alter table run add column submitter text not null default '';

-- Bearer tokens. The secret itself is never stored. Every database that holds a namespace of a token has
-- a copy of its row; the rows of the primary database decide.
create table token (
    id             uuid        not null,
    -- SHA-256 of the secret.
    hash           bytea       not null,
    -- The identity. Several tokens may carry one name, as during a rotation.
    name           text        not null,
    roles          text[]      not null,
    -- `*` alone is every namespace.
    namespaces     text[]      not null,
    created_at     timestamptz not null,
    created_by     text        not null,
    -- The creator's own id for the call; empty gives no guarantee about a repeat.
    request_id     text        not null,
    request_digest text        not null,
    expires_at     timestamptz,
    revoked_at     timestamptz,
    -- To the minute: a row that is written with every call would cost more than it tells.
    last_used_at   timestamptz,
    constraint token_pkey primary key (id),
    constraint token_hash_once unique (hash),
    constraint token_hash_is_sha256 check (octet_length(hash) = 32),
    constraint token_named check (name <> ''),
    constraint token_roles_known check (
        cardinality(roles) > 0
        and roles <@ array['viewer', 'submitter', 'operator', 'approver', 'driver', 'worker', 'service']),
    -- Drivers and workers never approve.
    constraint token_machine_never_approves check (
        not ('approver' = any(roles) and roles && array['driver', 'worker'])),
    constraint token_reaches_a_namespace check (cardinality(namespaces) > 0)
);

create unique index token_request_once on token (created_by, request_id) where request_id <> '';

-- What operators ask of the runs of a namespace. It lies in the namespace's own database.
create table namespace_policy (
    namespace  text        not null,
    version    bigint      not null,
    body       json        not null,
    updated_at timestamptz not null,
    updated_by text        not null,
    constraint namespace_policy_pkey primary key (namespace),
    constraint namespace_policy_named check (namespace <> ''),
    constraint namespace_policy_version_positive check (version > 0)
);

-- Every change of what is administered, in the transaction of the change.
create table audit (
    -- A UUIDv7: in the order of time.
    id        uuid        not null,
    at        timestamptz not null,
    -- Who changed it.
    identity  text        not null,
    action    text        not null,
    -- What was changed, such as `token/ID` or `namespace_policy/NAME`.
    object    text        not null,
    -- The namespaces that are concerned; `*` alone is every one.
    namespaces text[]     not null,
    -- JSON, without secrets; null where there was nothing, or is nothing any more.
    before    json,
    after     json,
    constraint audit_pkey primary key (id)
);

create function audit_only_grows() returns trigger language plpgsql as $$
begin
    raise exception 'rows of "audit" are never changed or deleted'
        using errcode = 'check_violation', table = 'audit', constraint = 'audit_only_grows';
end
$$;

create trigger audit_only_grows before update or delete or truncate on audit
    for each statement execute function audit_only_grows();
