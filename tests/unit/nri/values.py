"""Pods, containers and hypothesis strategies for them."""

from __future__ import annotations

from hypothesis import strategies as st

from berth.model.pod import Adjustment, Container, ContainerState, Sandbox

SANDBOX = Sandbox(id="s1", name="p", namespace="ns", uid="u1", netns_path="/var/run/netns/cni-1")
CONTAINER = Container(id="c1", sandbox_id="s1", name="main", env={"K": "V"})

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_maps = st.dictionaries(_texts, _texts, max_size=3)
_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="="), max_size=8)

sandboxes = st.builds(
    Sandbox,
    id=_texts,
    name=_texts,
    namespace=_texts,
    uid=_texts,
    netns_path=st.none() | st.text("/abc", min_size=1, max_size=9),
    annotations=_maps,
    labels=_maps,
    runtime_handler=_texts,
    ips=st.lists(_texts, max_size=2).map(tuple),
    pid=st.integers(0, 2**32 - 1),
)
containers = st.builds(
    Container,
    id=_texts,
    sandbox_id=_texts,
    name=_texts,
    env=st.dictionaries(_names, _texts, max_size=3),
    state=st.sampled_from(ContainerState),
    cdi_devices=st.lists(_texts, max_size=2).map(tuple),
    annotations=_maps,
    labels=_maps,
    pid=st.integers(0, 2**32 - 1),
)
adjustments = st.builds(
    Adjustment, env=_maps, annotations=_maps, cdi_devices=st.lists(_texts, max_size=2).map(tuple)
)
