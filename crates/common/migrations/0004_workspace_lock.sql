-- Which run works in which folder: one run at a time, over folders above and below it too. A row whose
-- run has ended locks nothing; it is deleted later.
create table workspace_lock (
    run_id uuid        not null,
    -- The machine, or the shared volume, on which the path names the folder.
    host   text        collate "C" not null,
    -- The real path, without links.
    path   text        collate "C" not null,
    -- False while the run waits for another one.
    held   boolean     not null,
    since  timestamptz not null,
    constraint workspace_lock_pkey primary key (run_id),
    constraint workspace_lock_path_absolute check (path like '/%')
);

create index workspace_lock_by_host on workspace_lock (host);
