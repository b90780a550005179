, opened as (
    insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld, labels)
    select waiting.id, new.id, waiting.kind, new.namespace, new.priority, new.created_at, false,
           new.labels::jsonb
    from unnest($40::uuid[], $41::uuid[], $42::text[]) as waiting (run_id, id, kind)
    join new on new.id = waiting.run_id
    join made on made.id = new.id
)
