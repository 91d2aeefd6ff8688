"""The stored amounts of a pool."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The stored state of a pool.

    Attributes:
        used_cost: Micro-dollars that were billed, as are the other costs.
        extra_tokens: Tokens by which an admin has raised the limit for now.
        extra_cost: Micro-dollars by which an admin has raised it.
        warned: Whether 80 % was reported.
        exhausted: Whether a refusal was reported.
    """

    id: str
    used_tokens: int = 0
    used_cost: int = 0
    reserved_tokens: int = 0
    reserved_cost: int = 0
    extra_tokens: int = 0
    extra_cost: int = 0
    warned: bool = False
    exhausted: bool = False
