-- Registers a key. One that signs again has no end.
insert into signing_key (key_id, service, public_key, valid_from)
values ($1, $2, $3, $4)
on conflict on constraint signing_key_pkey
    do update set valid_until = null where signing_key.valid_until is not null
