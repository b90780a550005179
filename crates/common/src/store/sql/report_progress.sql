-- What workers report of calls that they still have.
update wait
set progress = report.message, progress_percent = report.percent
from unnest($1::uuid[], $2::bigint[], $3::text[], $4::smallint[]) as report (id, lease_epoch, message, percent)
where wait.id = report.id and wait.lease_epoch = report.lease_epoch and wait.lease_holder is not null
