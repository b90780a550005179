select exists (
    select from journal
    where run_id = $1
      and sequence = $2
      and at = $3
      and span_id is not distinct from $4
      and entries::text = $5
) or exists (
    select from execution
    where $5 = '[]'
      and run_id = $1
      and sequence = $2
      and updated_at = $3
      and version = $6
      and lease_epoch = $7)
