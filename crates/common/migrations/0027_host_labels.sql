-- A run on a local folder goes on only where the folder is: on the executors with the host label of its first claim.
alter table execution add column host_label text collate "C";
alter table executor add column host_label text collate "C";
