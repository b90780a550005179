-- Stores an anchor with the places of its verdicts.
with stored as (
    insert into anchor (anchor_id, anchored_at, decided_through, leaf_count, token) values ($1, $2, $3, $4, $5)
)
insert into anchored_verdict (run_id, sequence, anchor_id, first_leaf, nodes)
select run_id, sequence, $1, first_leaf, nodes
from unnest($6::uuid[], $7::bigint[], $8::integer[], $9::bytea[]) as leaf (run_id, sequence, first_leaf, nodes)
