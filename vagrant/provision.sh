#!/bin/sh
# Makes a node of this machine: installs the package, puts a configuration in place if one is named,
# and waits until berthd is ready. The tests in containers and in VMs run this very script.
#   provision.sh PACKAGE.deb [AGENT.toml]
# BERTH_LIMIT_S is how long it waits at most: an emulated processor is slow.
set -eu
package=$(readlink -f "$1")
config=${2:-}
limit_s=${BERTH_LIMIT_S:-120}
export DEBIAN_FRONTEND=noninteractive

apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$package" </dev/null
if [ -n "$config" ]; then
  install -m 0644 "$config" /etc/berth/agent.toml
  systemctl restart berthd.service || true # it is tried again; the wait below tells the end
fi

ready() { systemctl is-active --quiet berthd.socket && systemctl is-active --quiet berthd.service; }
waited_s=0
until ready; do
  if [ "$waited_s" -ge "$limit_s" ]; then
    echo "provision.sh: berthd is not ready after $limit_s s" >&2
    journalctl --no-pager --lines=50 --unit=berthd.service >&2
    exit 1
  fi
  sleep 1
  waited_s=$((waited_s + 1))
done
systemctl show --property=StatusText --value berthd.service
