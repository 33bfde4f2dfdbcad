"""python -m raretokens plan | check: what the runs of this folder's params.yaml need, and a try of their full size."""

import sys

from raretokens.cli.plan import main
from raretokens.errors import UserError

try:
    main()
except UserError as error:
    sys.exit(f"error: {error}")
