"""As much of CEL as device selectors are mostly made of, evaluated on a device's JSON.

Comparisons of ``device.driver`` and ``device.attributes[DOMAIN].NAME`` with literals, joined by
``&&``, ``||``, ``!`` and parentheses, and ``in`` with a list. Whatever else CEL has is told as
`Unread`, so that who asks can say that this selector was not looked at.

Source: CEL's language definition, "Syntax"; KEP-4381 for what ``device`` has.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from berth.errors import ClaimError, ConfigError

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>-?\d+(?!\.\d|\w))
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[<>!()\[\].,])
    )""",
    re.VERBOSE,
)
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False}
_DEPTH_LIMIT: Final = 40


class Unread(ConfigError):
    """The expression needs more of CEL than is read here."""


def selects(expression: str, device: Mapping[str, Any], *, driver: str) -> bool:
    """Whether a selector takes a device.

    Args:
        device: As it stands in a slice.

    Raises:
        Unread: The expression cannot be judged here.
        ClaimError: It reads an attribute that the device lacks, which stops the scheduler too.
    """
    value = _Reader(expression, _attributes(device, driver), driver).whole()
    if not isinstance(value, bool):
        raise Unread("selector", f"gives {value!r}", rule="it must give true or false")
    return value


def _attributes(device: Mapping[str, Any], driver: str) -> Mapping[str, Mapping[str, Any]]:
    """Attributes by domain; names without one belong to the driver's."""
    found: dict[str, dict[str, Any]] = {driver: {}}
    for qualified, value in (device.get("attributes") or {}).items():
        domain, _, name = qualified.rpartition("/")
        found.setdefault(domain or driver, {})[name] = next(iter(value.values()))
    return found


class _Reader:
    """Reads and evaluates in one pass.

    Both sides of a connective are evaluated, as nothing here has an effect; what one side lacks
    counts only if the other does not decide, as in CEL.
    """

    def __init__(
        self, expression: str, attributes: Mapping[str, Mapping[str, Any]], driver: str
    ) -> None:
        self._expression = expression
        self._tokens = _tokens(expression)
        self._place = 0
        self._depth = 0
        self._device = {"driver": driver, "attributes": attributes}

    def whole(self) -> Any:
        value = self._settled(self._any())
        if self._place < len(self._tokens):
            raise self._unread(self._tokens[self._place])
        return value

    def _any(self) -> Any:
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise self._unread("its depth")
        value = self._all()
        while self._take("||"):
            value = self._joined(value, self._all(), decides=True)
        self._depth -= 1
        return value

    def _all(self) -> Any:
        value = self._single()
        while self._take("&&"):
            value = self._joined(value, self._single(), decides=False)
        return value

    def _joined(self, left: Any, right: Any, *, decides: bool) -> Any:
        if left is decides or right is decides:
            return decides
        return left if isinstance(left, ClaimError) else right

    def _single(self) -> Any:
        if self._take("!"):
            value = self._single()
            return value if isinstance(value, ClaimError) else not value
        left = self._operand()
        for sign, compare in _COMPARE.items():
            if self._take(sign):
                return self._compared(sign, compare, left, self._operand())
        if self._take("in"):
            right = self._operand()
            return left if isinstance(left, ClaimError) else left in right
        return left

    def _compared(self, sign: str, compare: Callable[[Any, Any], bool], *sides: Any) -> Any:
        for side in sides:
            if isinstance(side, ClaimError):
                return side
        left, right = sides
        if type(left) is not type(right):
            raise self._unread(f"{left!r} {sign} {right!r}")
        return compare(left, right)

    def _operand(self) -> Any:
        if self._take("("):
            value = self._any()
            self._require(")")
            return value
        if self._take("["):
            return self._list()
        word = self._next()
        if word[0] in "\"'":
            return word[1:-1].replace("\\\\", "\\").replace(f"\\{word[0]}", word[0])
        if word in _WORDS:
            return _WORDS[word]
        if word.lstrip("-").isdigit():
            return int(word)
        if word == "device":
            return self._path()
        raise self._unread(word)

    def _list(self) -> list[Any]:
        items: list[Any] = []
        while not self._take("]"):
            items.append(self._settled(self._operand()))
            if not self._take(","):
                self._require("]")
                break
        return items

    def _path(self) -> Any:
        self._require(".")
        value: Any = self._device.get(field := self._next())
        if value is None:
            raise self._unread(f"device.{field}")
        while True:
            if self._take("."):
                key = self._next()
            elif self._take("["):
                key = self._operand()
                self._require("]")
            else:
                return value
            if not isinstance(value, Mapping):
                raise self._unread(f"device.{field} … {key}")
            if key not in value:
                return ClaimError("selector", f"no such key: {key}", rule=self._expression)
            value = value[key]

    def _settled(self, value: Any) -> Any:
        if isinstance(value, ClaimError):
            raise value
        return value

    def _next(self) -> str:
        if self._place == len(self._tokens):
            raise self._unread("its end")
        self._place += 1
        return self._tokens[self._place - 1]

    def _take(self, token: str) -> bool:
        found = self._tokens[self._place : self._place + 1] == [token]
        self._place += found
        return found

    def _require(self, token: str) -> None:
        if not self._take(token):
            raise self._unread(f"what is not {token}")

    def _unread(self, what: str) -> Unread:
        return Unread("selector", f"{self._expression!r}: {what} is not read in a rehearsal")


def _tokens(expression: str) -> list[str]:
    tokens = []
    place = 0
    text = expression.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Unread("selector", f"{expression!r} is not read in a rehearsal")
        tokens.append(match[match.lastgroup or 0])
        place = match.end()
    return tokens
