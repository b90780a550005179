-- The entries in the history of a task are a chain: each has a number and the digest of the one before it, and the service
-- that stores it signs it. Entries of earlier versions are numbered, and name no entry before them.
alter table task_entry
    -- From 1 in each task, without gaps.
    add column number    integer,
    -- The digest of the entry before it; none for the first.
    add column previous  bytea,
    -- None for a service without a key.
    add column key_id    bytea,
    add column signature bytea,
    add column signed_at timestamptz;

update task_entry
set number = numbered.number
from (select run_id, sequence, row_number() over (partition by run_id order by sequence) as number
      from task_entry) as numbered
where task_entry.run_id = numbered.run_id and task_entry.sequence = numbered.sequence;

alter table task_entry
    alter column number set not null,
    add constraint task_entry_number_positive check (number > 0),
    add constraint task_entry_number_once unique (run_id, number),
    add constraint task_entry_previous_is_digest check (octet_length(previous) = 32),
    add constraint task_entry_signed_whole
        check ((key_id is null) = (signature is null) and (signature is null) = (signed_at is null));
