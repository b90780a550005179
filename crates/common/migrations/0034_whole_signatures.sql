-- The signatures of a verdict are 64 bytes each, and nothing is behind them.
alter table verdict add constraint verdict_signatures_whole
    check (octet_length(signature) > 0 and octet_length(signature) % 64 = 0);
