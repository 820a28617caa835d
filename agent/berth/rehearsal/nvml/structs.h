/* The structures of NVML's ABI on x86-64 that the stand-in fills, each held to its size and offsets.
 *
 * Source: GH 8.1 (table), itself read from nvidia-ml-py 13.615.71; a test reads the same numbers
 * from pynvml by ctypes.
 */
#ifndef BERTH_STRUCTS_H
#define BERTH_STRUCTS_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned int nvmlReturn_t;
typedef unsigned long long u64;

struct pci_info {
	char legacy[16];
	unsigned domain, bus, device, device_id, subsystem;
	char bus_id[32];
};

struct memory {
	u64 total, free, used;
};

struct memory_v2 {
	unsigned version;
	u64 total, reserved, free, used;
};

struct attributes {
	unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gi_slices, ci_slices;
	u64 memory_mib;
};

struct profile_v1 {
	unsigned id, p2p, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
	u64 memory_mib;
};

struct profile_v2 {
	unsigned version, id, p2p, slices, instances;
	unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa;
	u64 memory_mib;
	char name[96];
};

struct placement {
	unsigned start, size;
};

struct gi_info {
	void *device;
	unsigned id, profile;
	struct placement placement;
};

struct ci_info {
	void *device, *instance;
	unsigned id, profile;
	struct placement placement;
};

struct addressing {
	unsigned version, value;
};

struct event_data {
	void *device;
	u64 type, data;
	unsigned gi, ci;
};

struct field_value {
	unsigned id, scope;
	int64_t time, latency;
	unsigned type, result;
	union {
		double real;
		unsigned number;
		u64 wide;
		int64_t signed_wide;
	} value;
};

struct process {
	unsigned pid;
	u64 memory;
	unsigned gi, ci;
};

#define MEMORY_V2 0x02000028u
#define PROFILE_V2 0x02000098u
#define ADDRESSING_V1 0x01000008u

#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#define AT(type, field, at) _Static_assert(offsetof(struct type, field) == (at), #type "." #field)

SIZE(pci_info, 68);
AT(pci_info, legacy, 0);
AT(pci_info, domain, 16);
AT(pci_info, bus, 20);
AT(pci_info, device, 24);
AT(pci_info, device_id, 28);
AT(pci_info, subsystem, 32);
AT(pci_info, bus_id, 36);
SIZE(memory, 24);
SIZE(memory_v2, 40);
AT(memory_v2, version, 0);
AT(memory_v2, total, 8);
AT(memory_v2, reserved, 16);
AT(memory_v2, free, 24);
AT(memory_v2, used, 32);
SIZE(attributes, 40);
AT(attributes, memory_mib, 32);
SIZE(profile_v1, 48);
SIZE(profile_v2, 152);
AT(profile_v2, version, 0);
AT(profile_v2, id, 4);
AT(profile_v2, memory_mib, 48);
AT(profile_v2, name, 56);
SIZE(placement, 8);
AT(placement, start, 0);
AT(placement, size, 4);
SIZE(gi_info, 24);
AT(gi_info, device, 0);
AT(gi_info, id, 8);
AT(gi_info, profile, 12);
AT(gi_info, placement, 16);
SIZE(ci_info, 32);
AT(ci_info, device, 0);
AT(ci_info, instance, 8);
AT(ci_info, id, 16);
AT(ci_info, profile, 20);
AT(ci_info, placement, 24);
SIZE(addressing, 8);
AT(addressing, version, 0);
SIZE(event_data, 32);
AT(event_data, device, 0);
AT(event_data, type, 8);
AT(event_data, data, 16);
AT(event_data, gi, 24);
AT(event_data, ci, 28);
SIZE(field_value, 40);
AT(field_value, id, 0);
AT(field_value, scope, 4);
AT(field_value, time, 8);
AT(field_value, latency, 16);
AT(field_value, type, 24);
AT(field_value, result, 28);
AT(field_value, value, 32);
SIZE(process, 24);

#endif
