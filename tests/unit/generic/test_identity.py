"""What generic devices are, and names, ids and numbers that follow from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.generic.identity import (
    INDEXES_LIMIT,
    Memory,
    alike_names,
    forgotten,
    identity,
    ids,
    indexes,
    lasting_link,
    names,
    twins,
)
from berth.model.names import LABEL_LIMIT, is_dns_label
from tests.unit.generic.nodes import kvm, node, sound, tty

NONE: frozenset[str] = frozenset()
SERIAL = "usb:0403:6001:A5:00/ttyUSB"
TEXTS = st.text(min_size=1, max_size=120)
LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)


def test_serial_number_goes_first() -> None:
    """At whatever port, under whatever number of the kernel."""
    one = tty(0, port="2", properties={"ID_PATH": "x"})
    other = tty(7, port="3.1", links=("/dev/serial/by-id/x",))

    assert identity(one, NONE) == identity(other, NONE) == SERIAL


def test_place_goes_before_links() -> None:
    """As udev tells it, else as the ports do."""
    link = "/dev/serial/by-path/x"
    told = tty(0, serial="", properties={"ID_PATH": "pci-1-usb-2"}, links=(link,))

    assert identity(told, NONE) == "path:pci-1-usb-2/ttyUSB"
    assert identity(tty(3, serial=""), NONE) == "path:pci-0000:00:14.0-usb-0:2:1.0/ttyUSB"


def test_link_goes_before_sysfs() -> None:
    """That by id before that by path; other links are somebody's wish."""
    links = ("/dev/a", "/dev/disk/by-path/p", "/dev/serial/by-id/i")

    assert identity(node("/dev/x", "1:3", links=links, way="a/x"), NONE) == "link:serial/by-id/i"
    assert identity(node("/dev/x", "1:3", links=links[:2]), NONE) == "link:disk/by-path/p"


def test_sysfs_goes_before_the_path() -> None:
    """What hangs from nothing is known by its path alone."""
    port = node("/dev/ttyS0", "4:64", way="pnp0/00:04/tty/ttyS0", links=("/dev/modem",))

    assert identity(port, NONE) == "sys:pnp0/00:04/tty/ttyS0"
    assert identity(kvm(), NONE) == "dev:/dev/kvm"
    assert identity(node("/dev/x", "1:3"), NONE) == "dev:/dev/x"


def test_parts_of_one_place_differ() -> None:
    """A card records and plays at one place."""
    texts = {identity(sound(name, 1), NONE) for name in ("pcmC0D0c", "pcmC0D0p", "controlC0")}

    assert len(texts) == 3


def test_equal_serials_are_told_apart_by_place() -> None:
    """Both of them, since it is not known whose the number was."""
    known = twins([tty(0, port="2"), tty(1, port="3"), tty(2, serial="B")])

    assert known == {SERIAL}
    assert identity(tty(0, port="2"), known) == f"{SERIAL}@pci-0000:00:14.0-usb-0:2:1.0"
    assert identity(tty(9, port="3"), known) == f"{SERIAL}@pci-0000:00:14.0-usb-0:3:1.0"


def test_names_say_group_and_thing() -> None:
    """A static node is called as it is, without its folder."""
    owned = [("modem", SERIAL), ("kvm", "dev:/dev/kvm"), ("s", "sys:pnp0/00:04/tty/ttyS0")]

    assert list(names(owned, NONE).values()) == [
        "modem-usb-0403-6001-a5-00-ttyusb",
        "kvm-kvm",
        "s-sys-pnp0-00-04-tty-ttys0",
    ]


def test_names_that_would_be_one_are_hashed_both() -> None:
    """And stay so while the other one is away."""
    owned = [("g", "usb:a_b"), ("g", "usb:A-B"), ("g", "usb:c")]
    called = names(owned, NONE)
    shared = alike_names(owned)

    assert shared == {"g-usb-a-b"}
    assert len(set(called.values())) == 3
    assert names(owned[:1], shared) == {owned[0]: called[owned[0]]}


@given(st.lists(st.tuples(LABELS, TEXTS), unique=True, max_size=6))
def test_names_are_labels_and_differ(owned: list[tuple[str, str]]) -> None:
    """Whatever a device calls itself, and in whatever order they come."""
    called = names(owned, NONE)

    assert all(map(is_dns_label, called.values()))
    assert len(set(called.values())) == len(owned)
    assert names(owned[::-1], NONE) == called


@given(LABELS, st.integers(1, 1024))
def test_ids_are_short_and_differ(name: str, count: int) -> None:
    """Kubelet takes at most 63 bytes."""
    made = ids(name, count)

    assert len(set(made)) == count
    assert all(len(text) <= LABEL_LIMIT for text in made)
    assert made == (name,) if count == 1 else made[-1].endswith(f"::{count - 1}")


def test_ids_of_long_names_are_told_apart_by_a_hash() -> None:
    """Two names that begin alike do not become one."""
    one, other = (ids("x" * 62 + end, 1000)[0] for end in "ab")

    assert one != other
    assert ids("kvm-kvm", 2) == ("kvm-kvm::0", "kvm-kvm::1")


def test_number_in_the_group_is_kept() -> None:
    """A device that is away keeps its own; a new one gets the lowest free."""
    first = indexes([("g", "a"), ("g", "b"), ("h", "a")], {})
    later = indexes([("g", "c"), ("g", "b")], first)

    assert first == {"g/a": 0, "g/b": 1, "h/a": 0}
    assert later == {**first, "g/c": 2}


def test_numbers_of_the_gone_are_forgotten_at_the_limit() -> None:
    """Else adapters that are plugged in once would fill the memory."""
    known = {f"g/{number}": number for number in range(INDEXES_LIMIT)}

    assert indexes([("g", "5"), ("g", "new")], known) == {"g/5": 5, "g/new": 0}


def test_forgotten_device_leaves_its_number_to_others() -> None:
    """Those that remain keep theirs; a name that nobody had changes nothing."""
    memory = Memory(indexes={"modem/dev:/dev/a": 0, "modem/dev:/dev/b": 1, "kvm/dev:/dev/a": 0})

    assert forgotten(memory, "modem-a").indexes == {"modem/dev:/dev/b": 1, "kvm/dev:/dev/a": 0}
    assert forgotten(memory, "modem-x") == memory


def test_what_told_twins_apart_is_forgotten_with_the_last() -> None:
    """Until then the other one cannot be known by the serial number alone."""
    owned = [("modem", f"{SERIAL}@{where}") for where in ("one", "two")]
    called = names(owned, NONE)
    both = Memory(twins=(SERIAL, "other"), indexes={"/".join(each): 0 for each in owned})

    one = forgotten(both, called[owned[0]])
    assert (one.twins, len(one.indexes)) == ((SERIAL, "other"), 1)
    assert forgotten(one, called[owned[1]]) == Memory(twins=("other",))


def test_hash_in_a_name_is_forgotten_with_the_last() -> None:
    """While one is remembered that was mistaken for another, it keeps its longer name."""
    owned = [("g", "dev:/dev/a.b"), ("g", "dev:/dev/a-b")]
    alike = alike_names(owned)
    called = names(owned, alike)
    both = Memory(alike=tuple(alike), indexes={"/".join(each): 0 for each in owned})

    one = forgotten(both, called[owned[0]])
    assert (one.alike, list(one.indexes)) == (("g-a-b",), ["g/dev:/dev/a-b"])
    assert forgotten(one, called[owned[1]]) == Memory()


def test_link_that_lasts_is_of_the_kind_of_the_identity() -> None:
    """A serial number finds the device at any port, a place finds whatever is plugged in there."""

    links = ("/dev/serial/by-id/i", "/dev/serial/by-path/p", "/dev/modem")
    serial, bare = tty(0, links=links), tty(0, serial="", links=links)
    twin = identity(serial, twins([serial, tty(1, port="3.1")]))

    assert lasting_link(serial, identity(serial, NONE)) == links[0]
    assert lasting_link(serial, twin) == links[1]
    assert lasting_link(bare, identity(bare, NONE)) == links[1]
    assert lasting_link(node("/dev/x", "1:3", links=links), "link:serial/by-id/i") == links[0]
    assert lasting_link(node("/dev/x", "1:3", links=links[2:]), "dev:/dev/x") == ""
    assert lasting_link(tty(0, links=("/dev/by-id/\udcff",)), identity(serial, NONE)) == ""
