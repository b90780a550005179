-- Keeps the language of an agent beside its messages.
insert into mail_language (agent, language)
values ($1, $2)
on conflict (agent) do update set language = excluded.language
