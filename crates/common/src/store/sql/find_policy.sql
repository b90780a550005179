-- The files of overlays stand beside the policy, in the same snapshot.
select version, body::text as body, updated_at, updated_by,
       coalesce((select array_agg(overlay.body order by overlay.digest)
                 from namespace_overlay as overlay where overlay.namespace = $1), '{}') as overlays
from namespace_policy where namespace = $1
