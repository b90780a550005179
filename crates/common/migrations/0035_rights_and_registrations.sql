-- When a registered key ends, because its service signs with another one.
alter table signing_key add column valid_until timestamptz;

-- A run is DONE with a verdict on the plan that the row names: neither another run's id nor another revision can be put
-- behind the state.
drop trigger execution_becomes_done on execution;
create trigger execution_becomes_done after update of state, run_id, plan_revision on execution
    for each row when (
        new.state = 'DONE'
        and (old.state, old.run_id, old.plan_revision) is distinct from (new.state, new.run_id, new.plan_revision))
    execute function execution_done_has_verdict();

-- Since when verdicts are to be anchored: before the first anchor they are looked for from here, also by a gate that
-- started later.
create table anchoring (
    started_at timestamptz not null,
    only_row   boolean     not null default true,
    constraint anchoring_pkey primary key (only_row),
    constraint anchoring_is_one_row check (only_row)
);
