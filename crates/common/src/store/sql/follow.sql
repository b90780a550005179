-- Pages of journals, each from a number on, with the run's state. A run that does not exist has no
-- row, and an empty page has one row without an entry. Each page holds the rows that fit into its
-- size and one more, so that a row of any size is returned. The length is known without reading the
-- row.
select wanted.place, run.trace_parent, execution.state, execution.blocked_from,
       row.sequence, row.at, row.actor, row.entries
from unnest($1::uuid[], $2::bigint[], $3::bigint[])
     with ordinality as wanted (run_id, sequence, most, place)
join execution on execution.run_id = wanted.run_id
join run on run.id = wanted.run_id
left join lateral (
    select sequence, at, actor, entries
    from (
        select sequence, at, actor, entries,
               sum(octet_length(entries)) over (order by sequence rows unbounded preceding)
                   - octet_length(entries) as before
        from (
            select sequence, at, actor, entries
            from journal
            where journal.run_id = wanted.run_id
              and journal.sequence >= wanted.sequence
            order by sequence
            limit wanted.most
        ) as row
    ) as row
    where before <= $4
) as row on true
order by wanted.place, row.sequence
