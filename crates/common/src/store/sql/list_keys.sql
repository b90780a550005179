select service, public_key, valid_from, valid_until
from signing_key
order by service, valid_from
