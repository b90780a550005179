select exists (
    select from journal
    where run_id = $1
      and sequence = $2
      and at = $3
      and span_id is not distinct from $4
      and entries::text = $5)
