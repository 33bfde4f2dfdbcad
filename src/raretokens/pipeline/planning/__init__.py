"""Needs of a run before it starts: memory, disk and hours; refusal of what cannot fit; a trial at full size."""
