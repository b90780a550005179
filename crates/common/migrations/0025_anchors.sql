-- Anchors: a time-stamp authority signed the root of a tree over the signatures of verdicts.
create table anchor (
    anchor_id       uuid        not null,
    -- The time in the token.
    anchored_at     timestamptz not null,
    -- When the newest of its verdicts was decided: the next anchor begins there.
    decided_through timestamptz not null,
    leaf_count      integer     not null,
    -- The token of RFC 3161, in DER.
    token           bytea       not null,
    constraint anchor_pkey primary key (anchor_id),
    constraint anchor_has_leaves check (leaf_count > 0)
);

-- The place of each verdict in the tree of its anchor.
create table anchored_verdict (
    run_id     uuid    not null,
    sequence   bigint  not null,
    anchor_id  uuid    not null,
    first_leaf integer not null,
    -- The digests that with the leaf give the root, 32 bytes each.
    nodes      bytea   not null,
    constraint anchored_verdict_pkey primary key (run_id, sequence),
    constraint anchored_verdict_nodes_whole check (octet_length(nodes) % 32 = 0)
);
create index anchored_verdict_by_anchor on anchored_verdict (anchor_id);

-- Finds the verdicts since the last anchor. Rows are inserted about in the order of this time.
create index verdict_by_time on verdict using brin (decided_at) with (pages_per_range = 16);
