-- With $4, the whole body is compared with its digest: a receipt names the content by it.
select substring(body from $2 for $3), not $4 or encode(pg_catalog.sha256(body), 'hex') = digest from artifact where digest = $1
