"""Resources to kubelet's messages, and what kubelet asks, however odd, to values."""

from __future__ import annotations

import re

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from berth.deviceplugin.messages import (
    LIST_LIMIT,
    grant_answer,
    list_resource,
    options,
    read_ids,
    read_wish,
    register_request,
    wish_answer,
)
from berth.deviceplugin.preference import Wish
from berth.errors import BerthError, ClaimError, RemoteProtocolError
from berth.model.edits import DeviceNode, Edits, Mount, NodeType
from berth.model.resource import Grant, Resource, Unit
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.runtime.methods import Status, status_of

NAME = "example.com/gpu"
SHARED = Resource(
    name=NAME,
    units=(
        Unit(id="a::0", device="a", numa=(0,)),
        Unit(id="a::1", device="a", numa=(0,)),
        Unit(id="b::0", device="b", numa=(0, 1), healthy=False),
        Unit(id="c::0", device="c", held=True),
    ),
)


def allocate(*ids: str) -> pb.AllocateRequest:
    """Give a request for one container."""
    return pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])


def test_register_request_names_the_socket_and_the_options_of_the_service() -> None:
    """Kubelet is told the base name, and the same options that it will be told again."""

    request = register_request(endpoint="berth-1.sock", resource=NAME)

    assert request == pb.RegisterRequest(
        version="v1beta1",
        endpoint="berth-1.sock",
        resource_name=NAME,
        options=pb.DevicePluginOptions(get_preferred_allocation_available=True),
    )
    assert request.options == options()


def test_list_resource_gives_every_unit_with_kubelets_words() -> None:
    """Health has two words, topology is left out where nothing is near, and held is no illness."""

    listing = list_resource(SHARED)

    def device(name: str, health: str, *nodes: int) -> pb.Device:
        made = pb.Device(ID=name, health=health)
        if nodes:
            made.topology.nodes.extend(pb.NUMANode(ID=node) for node in nodes)
        return made

    assert [*listing.answer.devices] == [
        device("a::0", "Healthy", 0),
        device("a::1", "Healthy", 0),
        device("b::0", "Unhealthy", 0, 1),
        device("c::0", "Healthy"),
    ]
    assert not listing.answer.devices[3].HasField("topology")
    assert listing.faults == ()


def test_list_resource_leaves_out_what_kubelet_must_not_get() -> None:
    """One bad unit is told, and hides none of the others."""

    units = (
        Unit(id="", device="empty"),
        Unit(id="é" * 32, device="long"),
        Unit(id="é" * 31, device="good"),
        Unit(id="é" * 31, device="twin"),
    )

    listing = list_resource(Resource(name=NAME, units=units))

    assert [item.ID for item in listing.answer.devices] == ["é" * 31]
    assert [fault.partition(":")[0] for fault in listing.faults] == ["empty", "long", "twin"]
    assert "has 64 bytes: 1 to 63 are allowed" in listing.faults[1]


def test_list_resource_ends_before_it_is_too_long() -> None:
    """A list that kubelet might refuse as a whole is cut, and what is cut is told."""

    units = tuple(
        Unit(id=f"{number:063}", device=f"d{number}", numa=(0,)) for number in range(40_000)
    )

    listing = list_resource(Resource(name=NAME, units=units))

    assert LIST_LIMIT * 0.95 < listing.answer.ByteSize() <= LIST_LIMIT
    assert len(listing.answer.devices) + len(listing.faults) == 40_000
    assert "more than 3145728 bytes" in listing.faults[0]


def test_list_resource_of_nothing_is_an_empty_list() -> None:
    """A resource that lost all its units is still told."""

    assert list_resource(Resource(name=NAME, units=())).answer == pb.ListAndWatchResponse()


def test_read_ids_gives_them_in_their_order() -> None:
    """A request as kubelet makes it gives its ids, ill and held ones included."""

    assert read_ids(allocate("c::0", "a::1", "b::0"), SHARED) == ("c::0", "a::1", "b::0")


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.AllocateRequest(), "the request is about 0 containers"),
        (
            pb.AllocateRequest(
                container_requests=[pb.ContainerAllocateRequest(devices_ids=["a::0"])] * 2
            ),
            "the request is about 2 containers",
        ),
        (allocate(), "the container asks for no id"),
        (allocate("a::0", ""), "the request has an empty id"),
        (allocate("a::0", "b::0", "a::0"), "the request names a::0 twice"),
        (allocate(*map(str, range(16_385))), "the request has 16385 ids"),
    ],
)
def test_read_ids_refuses_what_kubelet_never_asks(request_: pb.AllocateRequest, text: str) -> None:
    """A request that kubelet does not make is the caller's fault, and says which."""

    with pytest.raises(RemoteProtocolError, match=re.escape(text)) as caught:
        read_ids(request_, SHARED)

    assert status_of(caught.value) is Status.INVALID_ARGUMENT
    assert str(caught.value).startswith(f"Allocate of {NAME}: ")


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (("a::0", "x", "y"), "x, y is not, or no more, among its 4 ids"),
        (tuple("pqrstu"), "p, q, r, s and 2 more is not"),
        (("a::0", "a::1"), "several shares of a for one container"),
    ],
)
def test_read_ids_refuses_what_cannot_be_given(ids: tuple[str, ...], text: str) -> None:
    """Ids that vanished, and shares of one device, fail the pod's admission with the reason."""

    with pytest.raises(ClaimError, match=re.escape(text)) as caught:
        read_ids(allocate(*ids), SHARED)

    assert status_of(caught.value) is Status.FAILED_PRECONDITION


def test_read_ids_takes_several_shares_where_they_are_allowed() -> None:
    """With ``many`` a container may have several shares of a device."""

    many = Resource(name=NAME, units=SHARED.units, many=True)

    assert read_ids(allocate("a::0", "a::1"), many) == ("a::0", "a::1")


def test_grant_with_cdi_names_gives_these_and_the_rest() -> None:
    """What the runtime reads from files, and beside it what kubelet tells itself."""

    grant = Grant(edits=Edits(env=("A=1",)), cdi_ids=("berth.dev/gpu=a", "berth.dev/gpu=b"))

    (entry,) = grant_answer(grant).container_responses
    assert [item.name for item in entry.cdi_devices] == ["berth.dev/gpu=a", "berth.dev/gpu=b"]
    assert dict(entry.envs) == {"A": "1"}
    assert not entry.devices
    assert not entry.mounts


def test_grant_without_cdi_gives_nodes_mounts_and_environment() -> None:
    """Every edit arrives, a later value of a variable in the place of an earlier one."""

    node = DeviceNode(
        path="/dev/a", host_path="/dev/b", type=NodeType.CHAR, major=1, minor=3, permissions="r"
    )
    edits = Edits(
        env=("A=1", "B=x=y", "A=2", "C"),
        nodes=(node,),
        mounts=(
            Mount(host_path="/h", container_path="/c", options=("ro", "bind")),
            Mount(host_path="/w", container_path="/w", options=("bind",)),
        ),
    )

    (entry,) = grant_answer(Grant(edits=edits)).container_responses

    assert dict(entry.envs) == {"A": "2", "B": "x=y", "C": ""}
    assert [*entry.devices] == [
        pb.DeviceSpec(container_path="/dev/a", host_path="/dev/b", permissions="r")
    ]
    assert [*entry.mounts] == [
        pb.Mount(container_path="/c", host_path="/h", read_only=True),
        pb.Mount(container_path="/w", host_path="/w"),
    ]


def test_node_is_told_by_the_link_that_lasts() -> None:
    """Kubelet keeps the answer over a reboot, which gives the number to another device."""

    link = "/dev/serial/by-id/a"
    node = DeviceNode(
        path="/dev/a", host_path="/dev/b", type=NodeType.CHAR, major=1, minor=3, link=link
    )

    (entry,) = grant_answer(Grant(edits=Edits(nodes=(node,)))).container_responses

    assert [*entry.devices] == [
        pb.DeviceSpec(container_path="/dev/a", host_path=link, permissions="rw")
    ]


def test_wish_is_read_and_answered() -> None:
    """What kubelet asks and what it is answered keep their order."""

    entry = pb.ContainerPreferredAllocationRequest(
        available_deviceIDs=["b", "a"], must_include_deviceIDs=["a"], allocation_size=2
    )
    request = pb.PreferredAllocationRequest(container_requests=[entry])

    assert read_wish(request, NAME) == Wish(available=("b", "a"), must=("a",), size=2)
    assert [*wish_answer(["b", "a"]).container_responses[0].deviceIDs] == ["b", "a"]


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([], "0 containers"),
        ([pb.ContainerPreferredAllocationRequest()] * 3, "3 containers"),
        ([pb.ContainerPreferredAllocationRequest(available_deviceIDs=["", "a"])], "empty id"),
        ([pb.ContainerPreferredAllocationRequest(must_include_deviceIDs=["a", "a"])], "a twice"),
    ],
)
def test_read_wish_refuses_what_kubelet_never_asks(
    entries: list[pb.ContainerPreferredAllocationRequest], text: str
) -> None:
    """A wish that kubelet does not make is the caller's fault, and says which."""

    with pytest.raises(RemoteProtocolError, match=text):
        read_wish(pb.PreferredAllocationRequest(container_requests=entries), NAME)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_by_an_error_of_ours(data: bytes) -> None:
    """Whatever protobuf takes for a request gives ids or one of our errors."""

    try:
        request = pb.AllocateRequest.FromString(data)
        wish = pb.PreferredAllocationRequest.FromString(data)
    except DecodeError:
        return
    for read in (lambda: read_ids(request, SHARED), lambda: read_wish(wish, NAME)):
        try:
            read()
        except BerthError:
            continue
