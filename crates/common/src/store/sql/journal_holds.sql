select exists (
    select from journal
    where run_id = $1
      and sequence = $2
      and at = $3
      and entries = $4
) or exists (
    select from execution
    where $4 = ''
      and run_id = $1
      and sequence = $2
      and updated_at = $3
      and version = $5
      and lease_epoch = $6)
