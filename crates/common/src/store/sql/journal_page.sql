-- Rows of a journal between two numbers, in order: those that fit into the page size and one more,
-- so that a row of any size is returned. The length is known without reading the row.
select sequence, at, actor, entries, signature
from (
    select sequence, at, actor, entries, signature,
           sum(octet_length(entries)) over (order by sequence rows unbounded preceding)
               - octet_length(entries) as before
    from (
        select sequence, at, actor, entries, signature
        from journal
        where run_id = $1 and sequence > $2 and sequence <= $3
        order by sequence
        limit $4
    ) as row
) as row
where before <= $5
order by sequence
