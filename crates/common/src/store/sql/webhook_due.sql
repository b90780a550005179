-- The webhooks of $1 that have a delivery which is due at $2.
select name
from unnest($1::text[]) as name
where exists (
    select from webhook_delivery
    where webhook = name and state = 'due' and next_attempt_at <= $2)
