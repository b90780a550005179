select offered.namespace, offered.tool, offered.identity, offered.spec_digest,
       case when offered.spec_digest = any($2) then null else offered.spec end as spec,
       coalesce(policy.version, 0) as policy_version
from worker_tool as offered
left join namespace_policy as policy on policy.namespace = offered.namespace
where offered.seen_at > $1
order by offered.namespace, offered.tool, offered.announced_at desc, offered.spec_digest
