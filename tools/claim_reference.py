"""Write docs/reference/claim-configuration.md from the table of fields, or see that it is current.

Usage: python -m tools.claim_reference [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth.nic.config.entries import KIND, SIZE_LIMIT, VERSION
from berth.nic.config.field import Field, Guard
from berth.nic.config.fields import FIELDS
from berth.nic.config.kinds import Later
from tools.page import FOLDER, make

PAGE: Final = FOLDER / "claim-configuration.md"

EXAMPLE: Final = f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: storage-net
spec:
  devices:
    requests:
      - name: nic
        exactly:
          deviceClassName: nic.berth.dev
    config:
      - requests: [nic]
        opaque:
          driver: berth.dev
          parameters:
            apiVersion: berth.dev/{VERSION}
            kind: {KIND}
            interface:
              name: storage0
              mtu: 1500
            addresses:
              - address: 10.40.0.7/24
              - address: fd40::7/64
            routes:
              - to: 10.41.0.0/16
                via: 10.40.0.1
            sysctls:
              ipv4:
                rp_filter: 2
"""

INTRODUCTION: Final = f"""\
# Configuration of a NIC in a claim

<!-- Made by tools/claim_reference.py from agent/berth/nic/config/fields.py; do not edit. -->

A claim, a DeviceClass and a group in `agent.toml` can say how a NIC shall be in its pod.
In claims and classes it is an opaque configuration for the driver, with \
`apiVersion: <driver>/{VERSION}` and `kind: {KIND}`.
`berth.dev/{VERSION}` is taken under every driver name, so that manifests travel.
In a group it is the table `defaults`, without those two.
Every field may be left out.

```yaml
{EXAMPLE}```

## Who wins

Built-in defaults are overruled by the group's `defaults`, these by entries of the DeviceClass, \
these by entries of the claim.
Among entries a later one overrules an earlier one.
An entry applies to the requests that it names, or to all.
Objects are merged field by field, a list replaces the whole list, and `null` brings the built-in \
default back.

## Who may set what

The author of a claim is a tenant of the node.
A guarded field is taken from classes and groups.
From claims it is taken only if `claims_may` of the group names it, or an object that it is in.
`claims_deny` takes other fields from claims.

## Faults

An entry is read strictly.
An unknown or repeated field, a wrong type, a number in quotes, a field without effect in the \
NIC's mode, or more than {SIZE_LIMIT} bytes refuse the claim.
All faults of all entries are told at once, each with its place, in the pod's event.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_tables(), ""])


def _tables() -> Iterator[str]:
    now = [field for field in FIELDS if not isinstance(field.form, Later)]
    for head, fields in _sections(now):
        yield f"## {head}\n"
        yield from _rows(
            ("Field", "Value", "Without it", "Guarded", "Meaning"),
            ((f"`{f.name}`", f.form.label, f.default, _guard(f), _meaning(f)) for f in fields),
        )
        yield ""
    yield "## Not available in this version\n"
    yield "These fields are known, and refused by name.\n"
    later = (field for field in FIELDS if isinstance(field.form, Later))
    yield from _rows(
        ("Field", "Value", "Guarded", "Meaning"),
        ((f"`{f.path}`", f.form.label, _guard(f), _meaning(f)) for f in later),
    )


def _sections(fields: Iterable[Field]) -> Iterator[tuple[str, Sequence[Field]]]:
    sections: dict[str, list[Field]] = {}
    for field in fields:
        sections.setdefault(field.path.rpartition(".")[0], []).append(field)
    for path, members in sections.items():
        yield (f"`{path}`" if path else "Fields at the top"), members


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


def _guard(field: Field) -> str:
    values = [f"`{getattr(v, 'value', v)}` (as `{right}`)" for v, right in field.guarded_values]
    always = [] if field.guard is Guard.NONE else [field.guard.value]
    return ", ".join(always + values)


def _meaning(field: Field) -> str:
    return f"{field.meaning} Required." if field.required else field.meaning


if __name__ == "__main__":
    sys.exit(make(PAGE, page, sys.argv[1:]))
