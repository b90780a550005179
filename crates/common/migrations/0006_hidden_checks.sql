-- The files of a namespace's hidden checks. They stand beside its policy, because policies and their changes are
-- shown to every operator who reads the audit.
create table namespace_overlay (
    namespace text  not null,
    -- SHA-256 of the body in hexadecimal, by which the policy's checks name it.
    digest    text  not null,
    body      bytea not null,
    constraint namespace_overlay_pkey primary key (namespace, digest)
);
