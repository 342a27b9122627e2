"""What the figures of a matrix say, in sentences: the first thing a reader wants, and nothing the figures do not say."""

from __future__ import annotations

from holdfast.reports.pooling import Matrix, Pooled
from holdfast.reports.svg import percent

UNTOUCHED = "untouched"
"""The model that nobody tuned: what there is to lose, and no defence to compare with others."""
MOST = 0.5
"""From this share of requests missed on, a low share complied with says nothing about safety."""


def findings(matrix: Matrix) -> dict[str, str]:
    """A sentence for the matrix and one for the plane; empty where there is nothing to compare."""
    worst = [(case[1].value, defence, case) for defence in _tuned(matrix) if (case := matrix.worst(defence, "asr"))]
    if len(worst) < 2:
        return {"matrix": "", "plane": ""}
    (low, safest, best), (high, weakest, least) = min(worst)[:3], max(worst)[:3]
    if best[1].high >= least[1].low:
        line = "At its worst, no defence is beyond the intervals of another."
    else:
        does = "complies with" if matrix.tells_outcomes else "does not refuse"
        line = f"At its worst, {safest} {does} {percent(low)} of forbidden requests{_missed(matrix, safest, best[0])}; "
        line += f"{weakest} with {percent(high)}." if matrix.tells_outcomes else f"{weakest} {percent(high)}."
    if not matrix.tells_outcomes:
        line += " What is not refused need not be an answer: the judge does not tell missed from complied."
    return {"matrix": line, "plane": _dominating(matrix)}


def _missed(matrix: Matrix, defence: str, attack: str) -> str:
    """What became of the others, and of harmless requests, where the cells tell."""
    missed, kept = (matrix.pooled[defence, attack].rate(measure) for measure in ("missed", "kept"))
    parts = [f"misses {percent(missed.value)}"] if missed else []
    parts += [f"keeps {percent(kept.value)} of the harmless ones"] if kept else []
    return f" ({', '.join(parts)})" if parts else ""


def _dominating(matrix: Matrix) -> str:
    """Where one defence is at least as safe and as useful as every other, whatever the intervals."""
    wins: dict[str, list[str]] = {}
    for attack in matrix.attacks:
        pooled = [pool for defence in _tuned(matrix) if (pool := matrix.pooled.get((defence, attack)))]
        places = {pool.defence: place for pool in pooled if (place := _place(pool))}
        for name, place in places.items():
            others = [other for other in places if other != name]
            if others and all(place[0] >= places[o][0] and place[1] >= places[o][1] for o in others):
                wins.setdefault(name, []).append(attack)
    if not wins:
        return "No defence is both the safest and the most useful under any attack."
    name = max(wins, key=lambda defence: len(wins[defence]))
    where = "every attack" if len(wins[name]) == len(matrix.attacks) else " and ".join(wins[name])
    if rates := _mostly_missed(matrix, name, wins[name]):
        return f"{name} complies least and is the most useful under {where}, but it misses most forbidden requests ({rates})."
    return f"{name} is both the safest and the most useful under {where}."


def _mostly_missed(matrix: Matrix, defence: str, attacks: list[str]) -> str:
    """Under which of these attacks a defence misses most requests, as a model does that answers everything in SQL."""
    missed = {attack: matrix.pooled[defence, attack].rate("missed") for attack in attacks}
    most = {attack: rate for attack, rate in missed.items() if rate and rate.value > MOST}
    return " and ".join(f"{percent(rate.value)} under {attack}" for attack, rate in most.items())


def _tuned(matrix: Matrix) -> list[str]:
    return [defence for defence in matrix.defences if defence != UNTOUCHED]


def _place(pooled: Pooled) -> tuple[float, float] | None:
    asr, utility = pooled.rate("asr"), pooled.rate("utility")
    return (1 - asr.value, utility.value) if asr and utility else None
