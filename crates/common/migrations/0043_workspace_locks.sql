-- Locks by folder: one that is taken, and a run that waits, look up the folder and those above it, and read those below it
-- side by side. A search of all locks of a host took longer with each run that keeps its lock while it waits for a person.
create index workspace_lock_held on workspace_lock (host, path) where held;
create index workspace_lock_waiting on workspace_lock (host, path, since) where not held;
drop index workspace_lock_by_host;
-- Locks of ended runs are deleted all the time, so a vacuum must not wait for as many of them as a large table allows.
alter table workspace_lock set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000);
