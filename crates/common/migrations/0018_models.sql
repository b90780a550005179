-- Models of the service supply plans and decisions under kinds of their own, so that agents outside are not offered them.
alter table wait drop constraint wait_kind_known;
alter table wait add constraint wait_kind_known check (kind in (
    'plan', 'decision', 'tool', 'question', 'confirmation', 'acceptance', 'resume', 'timer',
    'workspace', 'budget', 'model_plan', 'model_decision'));

-- While an endpoint does not answer, a wait for its model is offered again at a time.
alter table wait drop constraint wait_call_whole;
alter table wait add constraint wait_call_whole check (
    (kind = 'tool') = (tool is not null) and (tool is null or offered_at is not null)
    and (offered_at is null or kind in ('tool', 'model_plan', 'model_decision')));

-- The tools that executors have themselves, for models that plan: services do not call each other.
create table shown_tool (
    tool        text        collate "C" not null,
    description text        not null,
    -- The JSON Schema of the arguments.
    schema      text        not null,
    shown_at    timestamptz not null,
    constraint shown_tool_pkey primary key (tool)
);
