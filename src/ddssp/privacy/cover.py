"""Cover: whether a dataset's account has room for a request, and what to say if not."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ddssp.privacy.books import Account, protected
from ddssp.privacy.budget import epsilon_of


@dataclass(frozen=True, kw_only=True)
class Request:
    """ρ for what one unit of a dataset may lose: one row, or with `unit` all rows with one value of that column."""

    dataset: str
    rho: Fraction
    unit: str = ""


def covers(account: Account, request: Request) -> bool:
    """Whether the ceiling is of the same unit and spent + ρ ≤ ceiling."""
    return account.unit == request.unit and request.rho <= account.remaining


def refusal(request: Request, account: Account | None, ledger: Path) -> str:
    """Why the account does not cover the request, and what to do; takes long enough to be no work for a transaction."""
    if account is None:
        command = budget_command(ledger, request.dataset, request.unit or None)
        return f"dataset must have a declared budget, got {request.dataset!r}, which has none in {ledger}: run {command}."
    if account.unit != request.unit:
        return _other_unit(request, account, ledger)
    return _beyond(request, account, ledger)


def budget_command(ledger: Path, dataset: str, unit: str | None = None) -> str:
    """The command that declares a ceiling, for a unit (empty: one row) or for the one that the dataset has."""
    column = "" if unit is None else f" --unit {shlex.quote(unit)}"
    return f"`ddssp ledger budget {shlex.quote(str(ledger))} --epsilon E --delta D --dataset {shlex.quote(dataset)}{column}`"


def _other_unit(request: Request, account: Account, ledger: Path) -> str:
    start = f"unit must be what the ceiling of dataset {request.dataset!r} bounds the loss of, {account.protects}"
    got = f"got {protected(request.unit)}"
    if not account.reservations:
        command = budget_command(ledger, request.dataset, request.unit)
        return f"{start}, {got}: nothing is spent yet, so declare the ceiling again, with {command}."
    if account.unit is None:
        command = budget_command(ledger, request.dataset)
        return f"{start}, {got}: say what its earlier releases protect with {command}, and --unit COLUMN if they had one."
    same = f"with --unit {shlex.quote(account.unit)} and --max-rows" if account.unit else "without --unit and --max-rows"
    return f"{start}, {got}, and the two do not add up: release {same}, or under a dataset name with a ceiling of its own."


def _beyond(request: Request, account: Account, ledger: Path) -> str:
    asked, spent, ceiling = (
        f"{float(value):.9g} (epsilon {epsilon_of(value, account.delta):.6g})"
        for value in (request.rho, account.spent, account.ceiling)
    )
    left = account.epsilon_left * (1 - 5e-4)  # four digits, rounded down
    less = f"ask for epsilon {left:.4g} or less, " if left else ""
    return (
        f"rho must fit under the ceiling of dataset {request.dataset!r}, got {asked} with {spent} spent of {ceiling}, epsilon"
        f" at delta {account.delta:g}: use a release already made, {less}or raise the ceiling with"
        f" {budget_command(ledger, request.dataset)}."
    )
