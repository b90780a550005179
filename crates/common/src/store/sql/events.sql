-- Pages of journals, each from a number on.
select wanted.place, row.sequence, row.at, row.actor, row.entries
from unnest($1::uuid[], $2::bigint[], $3::bigint[])
     with ordinality as wanted (run_id, sequence, most, place)
cross join lateral (
    select sequence, at, actor, entries
    from journal
    where journal.run_id = wanted.run_id
      and journal.sequence >= wanted.sequence
    order by sequence
    limit wanted.most
) as row
order by wanted.place, row.sequence
