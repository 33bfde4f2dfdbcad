"""python -m raretokens plan | check: what the runs of this folder's params.yaml need, and a try of their full size."""

from raretokens import config
from raretokens.planning.command import main

config.main(main)
