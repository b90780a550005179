    order by priority desc, opened_at
    limit $3
) as waiting
order by waiting.namespace, waiting.priority desc, waiting.opened_at
