-- Whether run $1 holds the lock of the folder $3 of host $2.
select exists (
    select from workspace_lock
    where run_id = $1
      and host = $2
      and path = $3
      and held
)
