-- When a wait ends without an answer: a confirmation, whose time an approver has. Others end with their runs.
alter table wait add column expires_at timestamptz;

create index wait_over on wait (expires_at) where expires_at is not null;
