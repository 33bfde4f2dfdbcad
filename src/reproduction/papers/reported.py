"""The numbers that a paper reports for a claim, and their effect."""

from raretokens.claims.effects import combined_effect
from reproduction.papers.claim import Claim
from reproduction.papers.declarations import Declarations


def reported_numbers(claim: Claim, declared: Declarations) -> dict[str, float | None]:
    """Return side -> the number that the paper reports, or None. The sides of a control are left out if they lack numbers."""
    if claim.unreported:
        return dict.fromkeys(claim.sides)
    sides = claim.sides if claim.lacks_control else claim.all_sides
    cells = {name: side.reported for name, side in sides.items()}
    return {name: declared.reported(file).mean(row, column, group) for name, (file, row, column, group) in cells.items()}


def reported_effect(claim: Claim, declared: Declarations) -> float | None:
    """Return the effect that the paper reports, or None."""
    numbers = list(reported_numbers(claim, declared).values())
    return None if None in numbers else float(combined_effect(claim.effect, numbers))
