-- The columns of a run that feed a verdict, as text, and its mutable row.
select run.created_at, run.driver, run.forked_from::text as forked_from, run.goal, run.limits::text as limits,
       run.namespace, run.policy::text as policy, run.repository::text as repository, run.submitter, run.workspace,
       run.labels::text as labels,
       execution.state, execution.blocked_from, execution.plan_revision, execution.sequence,
       execution.progress::text as progress, execution.terminal::text as terminal, execution.step_states
from run
join execution on execution.run_id = run.id
where run.id = $1
