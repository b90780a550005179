-- The deliveries that wait to be processed.
select count(*) from (select from forge_delivery where state = 'stored' limit 100000) as waiting
