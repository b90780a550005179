select service, public_key, valid_from
from signing_key
order by service, valid_from
