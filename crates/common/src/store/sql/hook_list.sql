select name, forge, secrets, updated_at, updated_by from hook order by name
