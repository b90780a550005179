select body from artifact where digest = $1
