/* MIG: modes, devices by slot, instances by id, profiles and where they could lie. */
#include <string.h>

#include "standin.h"

API nvmlReturn_t nvmlDeviceGetMigMode(const void *device, unsigned *current, unsigned *pending)
{
	ENTER(device, FULL);
	if (!call.gpu->mig_supported)
		LEAVE(NOT_SUPPORTED);
	if (current == NULL || pending == NULL)
		LEAVE(INVALID_ARGUMENT);
	*current = (unsigned)call.gpu->mig_current;
	*pending = (unsigned)call.gpu->mig_pending;
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(const void *device, unsigned *count)
{
	ENTER(device, FULL);
	PUT(count, call.gpu->mig_supported ? call.gpu->mig_slots : 0);
}

API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(const void *device, unsigned index, void **mig)
{
	ENTER(device, FULL);
	if (!call.gpu->mig_supported || !call.gpu->mig_current)
		LEAVE(NOT_SUPPORTED);
	if (index >= call.gpu->mig_slots)
		LEAVE(INVALID_ARGUMENT);
	for (unsigned at = 0; at < call.gpu->parts; at++)
		if (call.gpu->part[at].slot == index)
			PUT(mig, handle_of(PART, call.gpu->address, index, 0));
	LEAVE(NOT_FOUND);
}

API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const void *mig, void **device)
{
	ENTER(mig, PART);
	PUT(device, handle_of(FULL, call.gpu->address, 0, 0));
}

API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(const void *device, unsigned *answer)
{
	ENTER(device, FULL | PART);
	PUT(answer, call.part != NULL);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceId(const void *device, unsigned *id)
{
	ENTER(device, PART);
	PUT(id, call.part->gi);
}

API nvmlReturn_t nvmlDeviceGetComputeInstanceId(const void *device, unsigned *id)
{
	ENTER(device, PART);
	PUT(id, call.part->id);
}

static const struct instance *instance_of(const struct gpu *gpu, unsigned id)
{
	for (unsigned at = 0; at < gpu->instances; at++)
		if (gpu->instance[at].id == id)
			return &gpu->instance[at];
	return NULL;
}

static const struct part *compute_of(const struct gpu *gpu, unsigned gi, unsigned ci)
{
	for (unsigned at = 0; at < gpu->parts; at++)
		if (gpu->part[at].gi == gi && gpu->part[at].id == ci)
			return &gpu->part[at];
	return NULL;
}

API nvmlReturn_t nvmlDeviceGetAttributes_v2(const void *device, struct attributes *to)
{
	ENTER(device, FULL | PART);
	if (to == NULL)
		LEAVE(INVALID_ARGUMENT);
	if (call.part == NULL && !call.gpu->has_engines)
		LEAVE(NOT_SUPPORTED);
	const struct engines *from = call.part ? &call.part->engines : &call.gpu->engines;
	const struct instance *instance = call.part ? instance_of(call.gpu, call.part->gi) : NULL;
	memset(to, 0, sizeof *to);
	to->multiprocessors = from->multiprocessors;
	to->copy = from->copy;
	to->decoders = from->decoders;
	to->encoders = from->encoders;
	to->jpeg = from->jpeg;
	to->ofa = from->ofa;
	to->memory_mib = from->memory_mib;
	to->gi_slices = instance ? instance->place.size : 0;
	to->ci_slices = call.part ? call.part->place.size : 0;
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceById(const void *device, unsigned id, void **instance)
{
	ENTER(device, FULL);
	if (!call.gpu->mig_current)
		LEAVE(NOT_SUPPORTED);
	if (!call.gpu->mig_rights)
		LEAVE(NO_PERMISSION);
	if (instance_of(call.gpu, id) == NULL)
		LEAVE(NOT_FOUND);
	PUT(instance, handle_of(INSTANCE, call.gpu->address, id, 0));
}

API nvmlReturn_t nvmlGpuInstanceGetInfo(const void *handle, struct gi_info *info)
{
	ENTER(handle, INSTANCE);
	const struct instance *instance = instance_of(call.gpu, call.handle->first);
	if (instance == NULL || info == NULL)
		LEAVE(INVALID_ARGUMENT);
	info->device = handle_of(FULL, call.gpu->address, 0, 0);
	info->id = instance->id;
	info->profile = instance->profile;
	info->placement = instance->place;
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(const void *handle, unsigned id, void **to)
{
	ENTER(handle, INSTANCE);
	if (!call.gpu->mig_rights)
		LEAVE(NO_PERMISSION);
	if (compute_of(call.gpu, call.handle->first, id) == NULL)
		LEAVE(NOT_FOUND);
	PUT(to, handle_of(COMPUTE, call.gpu->address, call.handle->first, id));
}

API nvmlReturn_t nvmlComputeInstanceGetInfo_v2(const void *handle, struct ci_info *info)
{
	ENTER(handle, COMPUTE);
	const struct part *part = compute_of(call.gpu, call.handle->first, call.handle->second);
	if (part == NULL || info == NULL)
		LEAVE(INVALID_ARGUMENT);
	info->device = handle_of(FULL, call.gpu->address, 0, 0);
	info->instance = handle_of(INSTANCE, call.gpu->address, call.handle->first, 0);
	info->id = part->id;
	info->profile = part->profile;
	info->placement = part->place;
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetGpuInstances(const void *device, unsigned profile, void **to,
					   unsigned *count)
{
	ENTER(device, FULL);
	if (to == NULL || count == NULL)
		LEAVE(INVALID_ARGUMENT);
	if (!call.gpu->mig_rights)
		LEAVE(NO_PERMISSION);
	*count = 0;
	for (unsigned at = 0; at < call.gpu->instances; at++)
		if (call.gpu->instance[at].profile == profile)
			to[(*count)++] = handle_of(INSTANCE, call.gpu->address,
						   call.gpu->instance[at].id, 0);
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstances(const void *handle, unsigned profile, void **to,
						    unsigned *count)
{
	ENTER(handle, INSTANCE);
	if (to == NULL || count == NULL)
		LEAVE(INVALID_ARGUMENT);
	*count = 0;
	for (unsigned at = 0; at < call.gpu->parts; at++)
		if (call.gpu->part[at].gi == call.handle->first &&
		    call.gpu->part[at].profile == profile)
			to[(*count)++] = handle_of(COMPUTE, call.gpu->address, call.handle->first,
						   call.gpu->part[at].id);
	LEAVE(SUCCESS);
}

static const struct profile *by_number(const struct gpu *gpu, unsigned number)
{
	for (unsigned at = 0; at < gpu->profiles; at++)
		if (gpu->profile[at].number == number)
			return &gpu->profile[at];
	return NULL;
}

static const struct profile *by_id(const struct gpu *gpu, unsigned id)
{
	for (unsigned at = 0; at < gpu->profiles; at++)
		if (gpu->profile[at].id == id)
			return &gpu->profile[at];
	return NULL;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(const void *device, unsigned number,
						     struct profile_v1 *to)
{
	ENTER(device, FULL);
	const struct profile *from = by_number(call.gpu, number);
	if (to == NULL)
		LEAVE(INVALID_ARGUMENT);
	if (from == NULL)
		LEAVE(NOT_SUPPORTED);
	*to = (struct profile_v1){
		.id = from->id,
		.slices = from->slices,
		.instances = from->instances,
		.multiprocessors = from->engines.multiprocessors,
		.copy = from->engines.copy,
		.decoders = from->engines.decoders,
		.encoders = from->engines.encoders,
		.jpeg = from->engines.jpeg,
		.ofa = from->engines.ofa,
		.memory_mib = from->engines.memory_mib,
	};
	LEAVE(SUCCESS);
}

#ifndef OLD_DRIVER
API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(const void *device, unsigned number,
						      struct profile_v2 *to)
{
	ENTER(device, FULL);
	const struct profile *from = by_number(call.gpu, number);
	if (to == NULL)
		LEAVE(INVALID_ARGUMENT);
	if (to->version != PROFILE_V2)
		LEAVE(ARGUMENT_VERSION_MISMATCH);
	if (from == NULL)
		LEAVE(NOT_SUPPORTED);
	*to = (struct profile_v2){
		.version = PROFILE_V2,
		.id = from->id,
		.slices = from->slices,
		.instances = from->instances,
		.multiprocessors = from->engines.multiprocessors,
		.copy = from->engines.copy,
		.decoders = from->engines.decoders,
		.encoders = from->engines.encoders,
		.jpeg = from->engines.jpeg,
		.ofa = from->engines.ofa,
		.memory_mib = from->engines.memory_mib,
	};
	LEAVE(put_text(to->name, sizeof to->name, from->name));
}
#endif

API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(const void *device, unsigned id,
							       struct placement *to,
							       unsigned *count)
{
	ENTER(device, FULL);
	const struct profile *profile = by_id(call.gpu, id);
	if (count == NULL)
		LEAVE(INVALID_ARGUMENT);
	if (profile == NULL)
		LEAVE(NOT_SUPPORTED);
	if (to == NULL)
		PUT(count, profile->places);
	if (*count < profile->places)
		LEAVE(INSUFFICIENT_SIZE);
	memcpy(to, profile->place, profile->places * sizeof *to);
	PUT(count, profile->places);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(const void *device, unsigned id,
							   unsigned *count)
{
	ENTER(device, FULL);
	const struct profile *profile = by_id(call.gpu, id);
	if (profile == NULL)
		LEAVE(NOT_SUPPORTED);
	unsigned used = 0;
	for (unsigned at = 0; at < call.gpu->instances; at++)
		used += call.gpu->instance[at].profile == id;
	PUT(count, used < profile->instances ? profile->instances - used : 0);
}
