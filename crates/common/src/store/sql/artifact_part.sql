select substring(body from $2 for $3) from artifact where digest = $1
