-- What a run has from the run that it is a fork of; null for any other run.
alter table run add column forked_from json;
