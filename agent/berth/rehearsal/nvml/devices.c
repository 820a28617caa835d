/* Handles by every road, and what describes a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	ENTER_LIBRARY(1);
	unsigned present = 0;
	for (unsigned at = 0; at < call.world->gpus; at++)
		present += !call.world->gpu[at].absent;
	PUT(count, present);
}

/* The gate a second time, for the GPU that was found: its faults are the road's as well. */
static nvmlReturn_t give(const char *name, const char *address, void **device)
{
	struct handle *handle = handle_of(FULL, address, 0, 0);
	struct call call;
	nvmlReturn_t opened = call_open(&call, name, handle, FULL);
	if (opened != SUCCESS)
		return opened;
	PUT(device, handle);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	char address[32] = "";
	ENTER_LIBRARY(1);
	for (unsigned at = 0; at < call.world->gpus; at++)
		if (!call.world->gpu[at].absent && index-- == 0)
			strcpy(address, call.world->gpu[at].address);
	call_close(&call, SUCCESS);
	return *address ? give(__func__, address, device) : INVALID_ARGUMENT;
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
	char address[32] = "";
	nvmlReturn_t result = NOT_FOUND;
	ENTER_LIBRARY(1);
	for (unsigned at = 0; at < call.world->gpus; at++) {
		const struct gpu *gpu = &call.world->gpu[at];
		if (gpu->absent)
			continue;
		if (gpu->error == GPU_IS_LOST)
			result = GPU_IS_LOST; /* all are looked at, so one that is lost fails it */
		if (strcmp(gpu->uuid, uuid) == 0)
			strcpy(address, gpu->address);
	}
	call_close(&call, SUCCESS);
	if (result == GPU_IS_LOST || !*address)
		return result;
	return give(__func__, address, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
	char address[32] = "";
	unsigned wanted[4], has[4];
	if (bus_id == NULL ||
	    sscanf(bus_id, "%x:%x:%x.%x", &wanted[0], &wanted[1], &wanted[2], &wanted[3]) != 4)
		return INVALID_ARGUMENT;
	ENTER_LIBRARY(1);
	for (unsigned at = 0; at < call.world->gpus; at++) {
		const struct gpu *gpu = &call.world->gpu[at];
		if (!gpu->absent &&
		    sscanf(gpu->address, "%x:%x:%x.%x", &has[0], &has[1], &has[2], &has[3]) == 4 &&
		    memcmp(wanted, has, sizeof has) == 0)
			strcpy(address, gpu->address);
	}
	call_close(&call, SUCCESS);
	return *address ? give(__func__, address, device) : NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetIndex(const void *device, unsigned *index)
{
	ENTER(device, FULL);
	unsigned before = 0;
	for (const struct gpu *gpu = call.world->gpu; gpu != call.gpu; gpu++)
		before += !gpu->absent;
	PUT(index, before);
}

API nvmlReturn_t nvmlDeviceGetUUID(const void *device, char *uuid, unsigned length)
{
	ENTER(device, FULL | PART);
	LEAVE(put_text(uuid, length, call.part ? call.part->uuid : call.gpu->uuid));
}

API nvmlReturn_t nvmlDeviceGetName(const void *device, char *name, unsigned length)
{
	ENTER(device, FULL | PART);
	LEAVE(put_text(name, length, call.part ? call.part->name : call.gpu->name));
}

API nvmlReturn_t nvmlDeviceGetMinorNumber(const void *device, unsigned *minor)
{
	ENTER(device, FULL);
	PUT(minor, call.gpu->minor);
}

API nvmlReturn_t nvmlDeviceGetBrand(const void *device, unsigned *brand)
{
	ENTER(device, FULL | PART);
	PUT(brand, call.gpu->brand);
}

API nvmlReturn_t nvmlDeviceGetArchitecture(const void *device, unsigned *architecture)
{
	ENTER(device, FULL | PART);
	PUT(architecture, call.gpu->architecture);
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(const void *device, int *major, int *minor)
{
	ENTER(device, FULL | PART);
	if (major == NULL || minor == NULL)
		LEAVE(INVALID_ARGUMENT);
	*major = (int)call.gpu->major_cc;
	*minor = (int)call.gpu->minor_cc;
	LEAVE(SUCCESS);
}

static void fill_pci(struct pci_info *info, const char *address)
{
	unsigned domain = 0, bus = 0, slot = 0, function = 0;
	sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function);
	memset(info, 0, sizeof *info);
	info->domain = domain;
	info->bus = bus;
	info->device = slot;
	snprintf(info->legacy, sizeof info->legacy, "%04X:%02X:%02X.0", domain & 0xffff, bus & 0xff,
		 slot & 0xff);
	snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.%X", domain, bus, slot, function);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(const void *device, struct pci_info *info)
{
	ENTER(device, FULL);
	if (info == NULL)
		LEAVE(INVALID_ARGUMENT);
	fill_pci(info, call.gpu->address);
	info->device_id = call.gpu->device_id;
	info->subsystem = call.gpu->subsystem;
	LEAVE(SUCCESS);
}

static int is_down(const struct link *link)
{
	return strcmp(link->remote, "-") == 0;
}

API nvmlReturn_t nvmlDeviceGetNvLinkState(const void *device, unsigned link, unsigned *active)
{
	ENTER(device, FULL);
	for (unsigned at = 0; at < call.gpu->links; at++)
		if (call.gpu->link[at].number == link)
			PUT(active, !is_down(&call.gpu->link[at]));
	LEAVE(link < LINKS ? NOT_SUPPORTED : INVALID_ARGUMENT);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(const void *device, unsigned link,
						     struct pci_info *info)
{
	ENTER(device, FULL);
	if (info == NULL || link >= LINKS)
		LEAVE(INVALID_ARGUMENT);
	for (unsigned at = 0; at < call.gpu->links; at++) {
		if (call.gpu->link[at].number != link || is_down(&call.gpu->link[at]))
			continue;
		fill_pci(info, call.gpu->link[at].remote);
		LEAVE(SUCCESS);
	}
	LEAVE(NOT_SUPPORTED);
}

API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(const void *device, const void *other,
						     unsigned *level)
{
	ENTER(device, FULL);
	const struct handle *peer = handle_check(other);
	if (peer == NULL || peer->kind != FULL)
		LEAVE(INVALID_ARGUMENT);
	const struct gpu *gpu = world_gpu(call.world, peer->address);
	if (gpu == NULL)
		LEAVE(GPU_IS_LOST);
	PUT(level, gpu->numa == call.gpu->numa ? 30 : 50); /* host bridge: NODE, else SYSTEM */
}

API nvmlReturn_t nvmlDeviceGetP2PStatus(const void *device, const void *other, unsigned what,
					unsigned *status)
{
	(void)what;
	ENTER(device, FULL);
	const struct handle *peer = handle_check(other);
	if (peer == NULL || peer->kind != FULL)
		LEAVE(INVALID_ARGUMENT);
	PUT(status, 0);
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(const void *device, struct memory *memory)
{
	ENTER(device, FULL | PART);
	if (memory == NULL)
		LEAVE(INVALID_ARGUMENT);
	memory->total = call.part ? call.part->engines.memory_mib << 20 : call.gpu->memory_bytes;
	memory->free = memory->total;
	memory->used = 0;
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetVirtualizationMode(const void *device, unsigned *mode)
{
	ENTER(device, FULL);
	PUT(mode, call.gpu->virtualization);
}

API nvmlReturn_t nvmlDeviceGetPersistenceMode(const void *device, unsigned *mode)
{
	ENTER(device, FULL);
	PUT(mode, call.gpu->persistence);
}

API nvmlReturn_t nvmlDeviceGetComputeMode(const void *device, unsigned *mode)
{
	ENTER(device, FULL | PART);
	PUT(mode, call.gpu->compute_mode);
}

/* What came with newer drivers. */
#ifndef OLD_DRIVER
API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(const void *device, struct memory_v2 *memory)
{
	ENTER(device, FULL | PART);
	if (memory == NULL)
		LEAVE(INVALID_ARGUMENT);
	if (memory->version != MEMORY_V2)
		LEAVE(ARGUMENT_VERSION_MISMATCH);
	memory->total = call.part ? call.part->engines.memory_mib << 20 : call.gpu->memory_bytes;
	memory->reserved = 0;
	memory->free = memory->total;
	memory->used = 0;
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetAddressingMode(const void *device, struct addressing *mode)
{
	ENTER(device, FULL);
	if (mode == NULL)
		LEAVE(INVALID_ARGUMENT);
	if (mode->version != ADDRESSING_V1)
		LEAVE(ARGUMENT_VERSION_MISMATCH);
	mode->value = call.gpu->addressing;
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetNumaNodeId(const void *device, unsigned *node)
{
	(void)node;
	ENTER(device, FULL);
	LEAVE(NOT_SUPPORTED); /* only GPUs that are NUMA nodes themselves have one */
}

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count,
							 struct process *processes)
{
	ENTER(device, FULL | PART);
	if (count == NULL)
		LEAVE(INVALID_ARGUMENT);
	unsigned room = *count, found = 0;
	for (unsigned i = 0; i < call.gpu->processes; i++) {
		const struct running *running = &call.gpu->running[i];
		if (call.part && (running->gi != call.part->gi || running->ci != call.part->id))
			continue;
		if (processes != NULL && found < room)
			processes[found] = (struct process){
				.pid = running->pid, .gi = running->gi, .ci = running->ci
			};
		found++;
	}
	*count = found;
	LEAVE(found > room ? INSUFFICIENT_SIZE : SUCCESS);
}
#endif
