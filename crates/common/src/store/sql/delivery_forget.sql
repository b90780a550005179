-- Deletes deliveries that ended and arrived before $1, at most $2, and what forges withdrew before.
with forgotten as (
    delete from forge_withdrawal where happened_at < $1
)
delete from forge_delivery
where id in (
    select id from forge_delivery where state <> 'stored' and received_at < $1 order by received_at limit $2)
