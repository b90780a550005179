-- Stores a task, once for each event. Its run is made after the commit, under the same id.
insert into task (run_id, task_type, namespace, event_key, origin_key, event_type, action_type, forge, repo, number,
                  is_pull_request, happened_at, addressee, assignee, payload, instructions, is_notice, chain_id,
                  caused_by, depth, business_failures, created_at, remind_after_s, build_commit, server)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25)
on conflict (namespace, event_key) do nothing
returning run_id
