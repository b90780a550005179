      -- Of runs that carry all of the labels. The filter repeats the expression of its index.
      and labels <> '{}'::jsonb
      and labels @> $4::jsonb
