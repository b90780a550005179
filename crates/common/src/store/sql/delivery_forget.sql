-- Deletes deliveries that ended and arrived before $1, at most $2.
delete from forge_delivery
where id in (
    select id from forge_delivery where state <> 'stored' and received_at < $1 order by received_at limit $2)
