"""How a public name goes away: it warns for two minor releases, and is then removed.

`docs/releases.md` has the rules, and a test fails once a name has outlived the release
that should be without it.
"""

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])  # a function, or a class


class DeprecatedWarning(FutureWarning):
    """Which Python shows in other people's code too, and the command line."""


def warn_deprecated(what: str, *, since: str, removed_in: str, remedy: str) -> None:
    """Warn who called the caller that something will go away."""
    warnings.warn(
        f"{what} is deprecated since {since} and will be removed in {removed_in}. "
        f"{remedy}",
        DeprecatedWarning,
        stacklevel=3,
    )


def without(*, since: str, removed_in: str, **remedies: str) -> Callable[[F], F]:
    """Make a class or function accept what went: a warning says what to do.

    They have no effect otherwise. `remedies` has a sentence for each of them, and maybe
    for others, which this one still has.
    """

    def decorate(called: F) -> F:
        if isinstance(called, type):
            called.__init__ = decorate(called.__init__)  # type: ignore[misc]
            return called
        went = remedies.keys() - inspect.signature(called).parameters.keys()

        @functools.wraps(called)
        def accepting(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            for name in went & kwargs.keys():
                del kwargs[name]
                warn_deprecated(
                    name, since=since, removed_in=removed_in, remedy=remedies[name]
                )
            return called(*args, **kwargs)

        accepting.went = frozenset(went)  # type: ignore[attr-defined]
        return accepting  # type: ignore[return-value]

    return decorate
