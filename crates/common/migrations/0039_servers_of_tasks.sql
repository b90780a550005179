-- The host of the forge of a task or a withdrawal: two servers of one kind may have repositories with the same name. Empty for
-- rows of earlier versions, and where a delivery names none.
alter table task add column server text not null default '';
alter table forge_withdrawal add column server text not null default '';
alter table forge_withdrawal drop constraint forge_withdrawal_pkey;
alter table forge_withdrawal add constraint forge_withdrawal_pkey
    primary key (forge, repo, number, reason, happened_at, keeps, accounts, server);
