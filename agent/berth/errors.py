"""The one error tree, and the one form in which every error is told.

An error message names the place, what was found there, what is allowed, and how to mend it::

    /etc/berth/agent.toml: [nri] timeout_s is -3: it must be above 0; drop the line for the default

Each class says whose fault it was, so that a caller decides by class and never by text.
"""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: str) -> str:
    """``text`` for people and for JSON: what cannot be shown is escaped, line ends too.

    The kernel lets any bytes name a link but a few, and peers say what they like, so a word of
    theirs may hold what is no text at all, or what a terminal takes for a command.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


class BerthError(Exception):
    """Base of every error that berth raises on purpose; its text is one line that can be shown.

    Args:
        where: The place: a file and key, a device, a socket, a step.
        found: What was found there.
        rule: What is allowed or expected; empty when the finding says it all.
        mend: How to put it right; empty when nobody has to do anything.
    """

    def __init__(self, where: str, found: str, *, rule: str = "", mend: str = "") -> None:
        super().__init__(where, found, rule, mend)
        self.where = where
        self.found = found
        self.rule = rule
        self.mend = mend

    def __str__(self) -> str:
        text = f"{self.where}: {self.found}" if self.where else self.found
        if self.rule:
            text = f"{text}: {self.rule}"
        if self.mend:
            text = f"{text}; {self.mend}"
        return printable(text)


class ConfigError(BerthError):
    """What the operator wrote cannot be used. Ends the daemon at start, is refused at reload."""


class HostError(BerthError):
    """The machine refused or could not do something: kernel, file system, device.

    Args:
        errno: The kernel's number, 0 when there is none.
    """

    def __init__(
        self, where: str, found: str, *, rule: str = "", mend: str = "", errno: int = 0
    ) -> None:
        super().__init__(where, found, rule=rule, mend=mend)
        self.errno = errno


class ProtocolError(BerthError):
    """Base of the two faults that can occur between us and a peer."""


class LocalProtocolError(ProtocolError):
    """We used a protocol core wrongly; a defect of ours."""


class RemoteProtocolError(ProtocolError):
    """The peer sent what its protocol does not allow; its connection is of no further use."""


class KubeError(BerthError):
    """The API server refused, or could not be reached.

    Args:
        status: HTTP status, 0 when no answer came.
        reason: Kubernetes' own reason word, such as ``NotFound``; empty when there is none.
        fields: Paths of the object that were refused, such as ``spec.devices[3].name``.
    """

    def __init__(
        self,
        where: str,
        found: str,
        *,
        rule: str = "",
        mend: str = "",
        status: int = 0,
        reason: str = "",
        fields: Iterable[str] = (),
    ) -> None:
        super().__init__(where, found, rule=rule, mend=mend)
        self.status = status
        self.reason = reason
        self.fields = tuple(fields)


class ClaimError(BerthError):
    """This claim cannot be prepared, attached or undone now; other claims are not concerned."""


class StateError(BerthError):
    """What lies in the state folder cannot be read, or is newer than this program."""


class Faults(ConfigError, ClaimError):
    """Several faults of one text, told at once, so that they can be mended in one go.

    Args:
        where: The text as a whole: a file, or a claim.
        faults: The faults, in the order of the text; never empty.
    """

    def __init__(self, where: str, faults: Iterable[BerthError]) -> None:
        self.faults = tuple(faults)
        if not self.faults:
            raise LocalProtocolError("Faults", "made without a fault")
        count = len(self.faults)
        super().__init__(where, f"{count} fault{'s' if count > 1 else ''}")

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)
