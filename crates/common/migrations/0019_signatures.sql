-- The signature over the receipts and the row: key, signature of the group commit's root, and the proof of the row's
-- own leaves. None for rows of earlier versions and of services without a key.
alter table journal add column signature bytea;

-- The keys with which services sign. A reader of signatures never trusts a key because it stands here: it compares with
-- a file of its own.
create table signing_key (
    -- The first 16 bytes of the SHA-256 of the public key.
    key_id     bytea       not null,
    service    text        not null,
    public_key bytea       not null,
    valid_from timestamptz not null,
    constraint signing_key_pkey primary key (key_id, service),
    constraint signing_key_service_known check (service in ('planner', 'executor', 'gate', 'user')),
    constraint signing_key_is_ed25519 check (octet_length(key_id) = 16 and octet_length(public_key) = 32)
);

-- Verdicts, beside their entries in the journal: with database roles, only the gate inserts here.
create table verdict (
    run_id        uuid        not null,
    -- The number of its entry in the journal.
    sequence      bigint      not null,
    plan_revision integer     not null,
    accepted      boolean     not null,
    decided_at    timestamptz not null,
    -- None for a gate without a key.
    key_id        bytea,
    -- One signature of 64 bytes for each statement about the verdict.
    signature     bytea,
    constraint verdict_pkey primary key (run_id, sequence),
    constraint verdict_signed_whole check ((key_id is null) = (signature is null)),
    constraint verdict_revision_positive check (plan_revision > 0)
);

-- A run becomes DONE only with an accepted verdict on its plan. The check is made behind the statement, which inserts the
-- verdict and changes the state.
create function execution_done_has_verdict() returns trigger language plpgsql as $$
begin
    if not exists (
        select from verdict
        where verdict.run_id = new.run_id
          and verdict.plan_revision = new.plan_revision
          and verdict.accepted
    ) then
        raise exception 'run % has no accepted verdict on plan revision %', new.run_id, new.plan_revision
            using errcode = 'check_violation', table = 'execution',
                  constraint = 'execution_done_has_verdict';
    end if;
    return null;
end
$$;

create trigger execution_becomes_done after update of state on execution
    for each row when (new.state = 'DONE' and old.state is distinct from 'DONE')
    execute function execution_done_has_verdict();
create trigger execution_begins_done after insert on execution
    for each row when (new.state = 'DONE')
    execute function execution_done_has_verdict();
