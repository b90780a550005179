-- Each address is delivered to on its own.
drop index webhook_delivery_due;
create index webhook_delivery_due on webhook_delivery (webhook, next_attempt_at) where state = 'due';

-- Webhooks also tell of runs that wait for an operator.
drop index wait_of_people;
create index wait_of_people on wait (namespace, opened_at)
    where kind in ('question', 'confirmation', 'acceptance', 'budget', 'resume');
