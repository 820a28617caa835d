/* Handles: one for each thing that was ever asked for, never freed.
 *
 * A MIG handle is its GPU and its slot. When another instance takes the slot, an old handle speaks
 * of that one: NVML's handles die with their instance and may be used again.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct handle *first_handle;

static struct handle *find(unsigned kind, const char *address, unsigned first, unsigned second)
{
	for (struct handle *handle = first_handle; handle != NULL; handle = handle->next)
		if (handle->kind == kind && handle->first == first && handle->second == second &&
		    strcmp(handle->address, address) == 0)
			return handle;
	return NULL;
}

struct handle *handle_of(unsigned kind, const char *address, unsigned first, unsigned second)
{
	pthread_mutex_lock(&guard);
	struct handle *handle = find(kind, address, first, second);
	if (handle == NULL && (handle = calloc(1, sizeof *handle)) != NULL) {
		handle->kind = kind;
		handle->first = first;
		handle->second = second;
		snprintf(handle->address, sizeof handle->address, "%s", address);
		handle->next = first_handle;
		first_handle = handle;
	}
	pthread_mutex_unlock(&guard);
	return handle;
}

const struct handle *handle_check(const void *pointer)
{
	const struct handle *found = NULL;
	pthread_mutex_lock(&guard);
	for (const struct handle *handle = first_handle; handle != NULL; handle = handle->next)
		if (handle == pointer)
			found = handle;
	pthread_mutex_unlock(&guard);
	return found;
}
