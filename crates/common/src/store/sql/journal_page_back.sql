-- As `journal_page.sql`, in descending order.
select sequence, at, actor, entries
from (
    select sequence, at, actor, entries,
           sum(octet_length(entries)) over (order by sequence desc rows unbounded preceding)
               - octet_length(entries) as before
    from (
        select sequence, at, actor, entries
        from journal
        where run_id = $1 and sequence < $2
        order by sequence desc
        limit $3
    ) as row
) as row
where before <= $4
order by sequence desc
