insert into signing_key (key_id, service, public_key, valid_from)
values ($1, $2, $3, $4)
on conflict do nothing
