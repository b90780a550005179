select version, body::text as body, updated_at, updated_by from namespace_policy where namespace = $1
