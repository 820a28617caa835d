"""The document in what an operator hands over: a plugin's file, or a ConfigMap around it."""

from __future__ import annotations

import json
import sys

import pytest

from berth.convert.source import Source, find
from berth.errors import ConfigError
from berth.rehearsal.manifests import documents_of

DOCUMENT = {"resourceList": [{"resourceName": "r", "selectors": {}}]}
TEXT = json.dumps(DOCUMENT)

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: sriovdp-config, namespace: kube-system}
data:
  config.json: |
    {
      "resourceList": [{"resourceName": "r", "selectors": {}}]
    }
"""

AS_JSON = {"kind": "ConfigMap", "data": {"config.json": TEXT}}

NODES = f"""\
kind: ConfigMap
metadata: {{name: sriovdp-config}}
data:
  node-1: '{TEXT}'
  node-2: |
    {{"configList": []}}
"""


def read(text: str, key: str = "") -> Source:
    """What is found in a file."""
    return find(text.encode(), "f", key=key, read_yaml=documents_of)


def test_file_of_a_plugin_is_itself() -> None:
    """As it lies in the plugin's folder."""

    assert read(f"\n  {TEXT}\n") == Source(document=DOCUMENT, where="f")


@pytest.mark.parametrize(
    "text",
    [
        CONFIG_MAP,
        f"---\nkind: ServiceAccount\nmetadata: {{name: x}}\n---\n{CONFIG_MAP}---\n",
        json.dumps({"kind": "ConfigMap", "data": {"config.json": TEXT}}),
        json.dumps(
            {"kind": "List", "items": [{"kind": "ConfigMap", "data": {"config.json": TEXT}}]}
        ),
    ],
)
def test_config_map_is_looked_into(text: str) -> None:
    """In YAML or JSON, alone or among other objects."""

    assert read(text) == Source(document=DOCUMENT, where='f: data["config.json"]')


def test_key_says_which_of_several_is_meant() -> None:
    """Such as one for each node."""

    assert read(NODES, "node-2") == Source(document={"configList": []}, where='f: data["node-2"]')


TRAILING_COMMA = (
    "f:1:9: is no JSON: Illegal trailing comma before end of array; drop it"
    if sys.version_info >= (3, 13)
    else "f:1:10: is no JSON: Expecting value; drop the comma before it"
)


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        (NODES, "", 'f: has 2 keys in data; say by --key which one: "node-1" or "node-2"'),
        (NODES, "n", 'f: has no data["n"]; say by --key which one: "node-1" or "node-2"'),
        (TEXT, "node-1", "f: is no ConfigMap: --key names a key of one"),
        (CONFIG_MAP + "---\n" + CONFIG_MAP, "", "f: holds 2 ConfigMaps: it must be a plugin's"),
        ("resourceList: []", "", "f: is neither JSON nor a ConfigMap: it must be a plugin's file"),
        ("", "", "f: is neither JSON nor a ConfigMap"),
        ("- 7", "", "f: is neither JSON nor a ConfigMap"),
        ("a: [", "", "f: is no YAML: while parsing"),
        ("kind: ConfigMap", "", "f: has 0 keys in data"),
        ("kind: ConfigMap\ndata: {}", "k", 'f: has no data["k"]'),
        ("kind: ConfigMap\ndata: {k: 7}", "", 'f: data["k"]: is no text'),
        ("kind: ConfigMap\ndata: {k: '{'}", "", 'f: data["k"]:1:2: is no JSON: Expecting property'),
        ("kind: ConfigMap\ndata: {k: 'a: b'}", "", 'f: data["k"]:1:1: is no JSON: Expecting value'),
        ('{"a": [1,],\n}', "", TRAILING_COMMA),
        ('{"a": NaN}', "", "f: is no JSON: NaN is not JSON"),
        ('{"a": ' + "[" * 100_000, "", "f: is no JSON: nested too deep"),
    ],
)
def test_what_is_neither_is_refused(text: str, key: str, told: str) -> None:
    """With where it stands, and what to give instead."""
    with pytest.raises(ConfigError) as caught:
        read(text, key)

    assert str(caught.value).startswith(told)
