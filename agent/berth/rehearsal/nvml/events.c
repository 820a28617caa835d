/* Event sets. An event of the world is given once to each set that was registered before it came:
 * what lay in the world at registration is lost, as with NVML.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

struct registration {
	char address[32];
	u64 types, given;
};

struct event_set {
	unsigned session, registrations;
	struct registration registration[GPUS];
	struct event_set *next;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct event_set *sets;

/* Under the guard: the set, unless it was freed or its session is over. */
static struct event_set *known(const void *pointer)
{
	for (struct event_set *set = sets; set != NULL; set = set->next)
		if (set == pointer && set->session == session_number())
			return set;
	return NULL;
}

API nvmlReturn_t nvmlEventSetCreate(void **to)
{
	ENTER_LIBRARY(1);
	struct event_set *set = to == NULL ? NULL : calloc(1, sizeof *set);
	if (set == NULL)
		LEAVE(INVALID_ARGUMENT);
	set->session = session_number();
	pthread_mutex_lock(&guard);
	set->next = sets;
	sets = set;
	pthread_mutex_unlock(&guard);
	PUT(to, set);
}

API nvmlReturn_t nvmlEventSetFree(void *pointer)
{
	ENTER_LIBRARY(1);
	pthread_mutex_lock(&guard);
	struct event_set *set = known(pointer);
	if (set != NULL)
		set->session = 0; /* the memory stays: a waiter may still look at it */
	pthread_mutex_unlock(&guard);
	LEAVE(set == NULL ? INVALID_ARGUMENT : SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(const void *device, u64 *types)
{
	ENTER(device, FULL | PART);
	PUT(types, call.part ? 0 : call.gpu->supported_events);
}

static struct registration *registration_of(struct event_set *set, const char *address)
{
	for (unsigned at = 0; at < set->registrations; at++)
		if (strcmp(set->registration[at].address, address) == 0)
			return &set->registration[at];
	if (set->registrations == GPUS)
		return NULL;
	struct registration *made = &set->registration[set->registrations++];
	strcpy(made->address, address);
	return made;
}

static u64 last_sequence(const struct gpu *gpu)
{
	u64 last = 0;
	for (unsigned at = 0; at < gpu->events; at++)
		if (gpu->event[at].sequence > last)
			last = gpu->event[at].sequence;
	return last;
}

API nvmlReturn_t nvmlDeviceRegisterEvents(const void *device, u64 types, void *pointer)
{
	ENTER(device, FULL);
	if (types & ~call.gpu->supported_events)
		LEAVE(NOT_SUPPORTED);
	pthread_mutex_lock(&guard);
	struct event_set *set = known(pointer);
	struct registration *registration =
		set == NULL ? NULL : registration_of(set, call.gpu->address);
	if (registration != NULL) {
		registration->types |= types;
		registration->given = last_sequence(call.gpu);
	}
	pthread_mutex_unlock(&guard);
	LEAVE(registration == NULL ? INVALID_ARGUMENT : SUCCESS);
}

static int deliver(struct registration *to, const struct gpu *gpu, struct event_data *data)
{
	const struct event *next = NULL;
	for (unsigned at = 0; at < gpu->events; at++) {
		const struct event *event = &gpu->event[at];
		if (event->sequence > to->given && (event->type & to->types) &&
		    (next == NULL || event->sequence < next->sequence))
			next = event;
	}
	if (next == NULL)
		return 0;
	to->given = next->sequence;
	data->device = handle_of(FULL, gpu->address, 0, 0);
	data->type = next->type;
	data->data = next->data;
	data->gi = next->gi;
	data->ci = next->ci;
	return 1;
}

/* TIMEOUT stands for "nothing yet". */
static nvmlReturn_t look(const void *pointer, const struct world *world, struct event_data *data)
{
	struct event_set *set = known(pointer);
	if (set == NULL)
		return session_count() ? INVALID_ARGUMENT : UNINITIALIZED;
	for (unsigned at = 0; at < set->registrations; at++) {
		const struct gpu *gpu = world_gpu(world, set->registration[at].address);
		if (gpu == NULL || gpu->error == GPU_IS_LOST)
			return GPU_IS_LOST;
		if (deliver(&set->registration[at], gpu, data))
			return SUCCESS;
	}
	return TIMEOUT;
}

API nvmlReturn_t nvmlEventSetWait_v2(void *set, struct event_data *data, unsigned timeout_ms)
{
	ENTER_LIBRARY(1);
	call_close(&call, SUCCESS); /* it waits outside the library's lock */
	if (data == NULL)
		return INVALID_ARGUMENT;
	for (unsigned waited = 0;; waited += 5) {
		struct world *world = world_hold();
		if (world == NULL)
			return UNKNOWN_ERROR;
		pthread_mutex_lock(&guard);
		nvmlReturn_t result = look(set, world, data);
		pthread_mutex_unlock(&guard);
		if (result == TIMEOUT && world->wait_error != SUCCESS)
			result = world->wait_error;
		int storm = world->storm;
		world_let_go(world);
		if (result != TIMEOUT || storm || waited >= timeout_ms)
			return result;
		pause_ms(5);
	}
}
