-- Keeps what a forge withdrew, once.
insert into forge_withdrawal (forge, repo, number, reason, accounts, keeps, happened_at, server)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict on constraint forge_withdrawal_pkey do nothing
