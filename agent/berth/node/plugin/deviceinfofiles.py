"""Files in which CNI plugins look up the NICs that the device plugin gave: one for each id.

A file is there before kubelet has the answer, and as long as the id is somebody's: a CNI plugin may
need it again while we are away. The folder lies in a file system that a reboot empties, so they are
written anew at each start.

Source: network.md §9.
"""

from __future__ import annotations

from pathlib import Path

from berth.nic.deviceinfo import file_content, file_name
from berth.node.records.given import Given
from berth.runtime.files import Folder


class DeviceInfoFiles:
    """Keeps the files.

    Args:
        folder: Where CNI plugins look; other device plugins keep theirs there too.
    """

    def __init__(self, folder: Path) -> None:
        # CNI plugins need not run as root's group does, and a reboot takes all files away.
        self._folder = Folder(folder, mode=0o644, durable=False)

    async def write(self, given: Given) -> None:
        """Write the files of what is being given.

        Raises:
            HostError: The folder cannot be made, or is full or read-only.
        """
        files = {
            name: content
            for device in given.devices
            if (info := device.peripheral.info) is not None
            and (content := file_content(info))
            and (name := file_name(given.holder.resource, device.id))
        }
        if files:
            await self._folder.make(mode=0o755)
        for name, content in files.items():
            await self._folder.write(name, content)

    async def remove(self, given: Given) -> None:
        """Take away the files of what nobody has any more.

        Raises:
            HostError: One is there and cannot be removed.
        """
        for device in given.devices:
            name = file_name(given.holder.resource, device.id)
            if device.peripheral.info is not None and name:
                await self._folder.remove(name)
