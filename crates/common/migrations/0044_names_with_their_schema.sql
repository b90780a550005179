-- Functions of triggers name their tables with the schema: a session may make a temporary table of the same name, which comes first
-- in the search for a name without one.
do $$
begin
    execute format($function$
        create or replace function execution_done_has_verdict() returns trigger language plpgsql as $body$
        begin
            if not exists (
                select from %1$I.verdict
                where verdict.run_id = new.run_id
                  and verdict.plan_revision = new.plan_revision
                  and verdict.accepted
            ) then
                raise exception 'run %% has no accepted verdict on plan revision %%', new.run_id, new.plan_revision
                    using errcode = 'check_violation', table = 'execution',
                          constraint = 'execution_done_has_verdict';
            end if;
            return null;
        end
        $body$
    $function$, current_schema());
    execute format($function$
        create or replace function wait_takes_labels() returns trigger language plpgsql as $body$
        begin
            select labels into new.labels from %1$I.run where id = new.run_id;
            return new;
        end
        $body$
    $function$, current_schema());
end
$$;
