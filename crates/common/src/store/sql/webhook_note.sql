-- Notes the events of webhooks since they were last noted: waits of people that opened, waits for a plan that no agent
-- has leased (also of a run that is paused meanwhile, because later it is not looked at any more), and runs that were
-- created and are watched until they end. Then makes watched runs of one page due that have ended; the result is the last
-- subject of the page, none for an empty one.
-- $1 names, $2 whether a webhook has a list of namespaces ('*' is every one): the lists, separated by commas,
-- $3, $4 whether it wants wait.opened and run.ended, $5 now, $6 how far back is looked again,
-- $7 the last subject of the page before, $8 the size of a page, $9 since when an agent could have leased a plan
with hook as (
    insert into webhook (name, seen_until)
    select name, $5 from unnest($1::text[]) as name
    on conflict (name) do update set seen_until = greatest(webhook.seen_until, excluded.seen_until)
    returning name
),
-- The values before this statement: a row that it inserts is not seen here.
wanted as (
    select given.name, string_to_array(given.namespaces, ',') as namespaces, waits, runs,
           webhook.seen_until - $6::interval as since,
           -- Ids of runs grow with time: the first 48 bits are milliseconds.
           lpad(to_hex((extract(epoch from webhook.seen_until - $6::interval) * 1000)::bigint), 12, '0')
               || '00000000000000000000' as first_id
    from unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[]) as given (name, namespaces, waits, runs)
    join webhook on webhook.name = given.name
),
opened as (
    insert into webhook_delivery (webhook, event, subject, run_id, state, noted_at, next_attempt_at)
    select wanted.name, 'wait.opened', wait.id, wait.run_id, 'due', $5, $5
    from wanted
    join wait on wait.opened_at > wanted.since
             and (wanted.namespaces = array['*'] or wait.namespace = any (wanted.namespaces))
    where wanted.waits
      and wait.kind in ('question', 'confirmation', 'acceptance', 'budget', 'resume', 'plan')
      and wait.answered_at is null
      and (wait.kind <> 'plan' or wait.opened_at <= $9 and wait.lease_epoch = 0)
    on conflict do nothing
),
created as (
    insert into webhook_delivery (webhook, event, subject, run_id, state, noted_at)
    select wanted.name, 'run.ended', run.id, run.id, 'watched', $5
    from wanted
    join run on run.id >= wanted.first_id::uuid
            and (wanted.namespaces = array['*'] or run.namespace = any (wanted.namespaces))
    where wanted.runs
    on conflict do nothing
),
page as (
    select webhook, event, subject, run_id
    from webhook_delivery
    where state = 'watched' and subject > $7
    order by subject
    limit $8
),
ended as (
    update webhook_delivery as delivery
    set state = 'due', next_attempt_at = $5
    from page
    join execution on execution.run_id = page.run_id
    where delivery.webhook = page.webhook and delivery.event = page.event
      and delivery.subject = page.subject and execution.terminal is not null
    returning 1
)
select (select subject from page order by subject desc limit 1) as last,
       (select count(*) from hook) as hooks, (select count(*) from ended) as ended
