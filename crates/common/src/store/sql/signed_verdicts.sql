-- The verdicts of a run, each with its anchor where it has one.
select verdict.sequence, verdict.plan_revision, verdict.accepted, verdict.decided_at, verdict.key_id,
       verdict.signature, anchored.first_leaf, anchored.nodes, anchor.leaf_count, anchor.token
from verdict
left join anchored_verdict as anchored
    on anchored.run_id = verdict.run_id and anchored.sequence = verdict.sequence
left join anchor on anchor.anchor_id = anchored.anchor_id
where verdict.run_id = $1
order by verdict.sequence
