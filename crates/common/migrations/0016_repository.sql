-- The git repository that a run works on in place of a folder: address, revision, and the name of its credential.
alter table run add column repository json;
