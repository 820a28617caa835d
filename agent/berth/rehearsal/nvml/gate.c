/* The gate that every call passes: it counts, hangs and fails as the world says.
 *
 * The counts lie in the file of the world's name with ".counters" behind: one line for each GPU and
 * one for the library, "WHO calls N open N most N", where "open" is how many calls are inside now
 * and "most" how many ever were at once.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

#define STEP_MS 5

struct tally {
	char who[32];
	unsigned calls, open, most;
};

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;
static struct tally tallies[GPUS + 1] = {{.who = "library"}};
static unsigned tallied = 1;
static int initialised;
static unsigned session;

void pause_ms(int ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};
	nanosleep(&time, NULL);
}

static void write_counters(void)
{
	const char *path = getenv("BERTH_NVML_WORLD");
	char name[512], text[(GPUS + 1) * 96];
	size_t length = 0;
	if (path == NULL)
		return;
	snprintf(name, sizeof name, "%s.counters", path);
	for (unsigned at = 0; at < tallied; at++)
		length += (size_t)snprintf(text + length, sizeof text - length,
					   "%s calls %08u open %04u most %04u\n", tallies[at].who,
					   tallies[at].calls, tallies[at].open, tallies[at].most);
	int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (file < 0)
		return;
	if (pwrite(file, text, length, 0) < 0)
		perror("NVML stand-in: counters");
	close(file);
}

static int tally_of(const char *who)
{
	for (unsigned at = 0; at < tallied; at++)
		if (strcmp(tallies[at].who, who) == 0)
			return (int)at;
	if (tallied > GPUS)
		return 0;
	snprintf(tallies[tallied].who, sizeof tallies[tallied].who, "%s", who);
	return (int)tallied++;
}

static int count_in(const char *who)
{
	pthread_mutex_lock(&counting);
	int at = tally_of(who);
	struct tally *tally = &tallies[at];
	tally->calls++;
	if (++tally->open > tally->most)
		tally->most = tally->open;
	write_counters();
	pthread_mutex_unlock(&counting);
	return at;
}

static void count_out(int at)
{
	pthread_mutex_lock(&counting);
	tallies[at].open--;
	write_counters();
	pthread_mutex_unlock(&counting);
}

int session_count(void)
{
	pthread_mutex_lock(&counting);
	int count = initialised;
	pthread_mutex_unlock(&counting);
	return count;
}

/* Each session has its number, so that nothing outlives the one that it was made in. */
unsigned session_number(void)
{
	pthread_mutex_lock(&counting);
	unsigned number = initialised ? session : 0;
	pthread_mutex_unlock(&counting);
	return number;
}

int session_add(int by)
{
	pthread_mutex_lock(&counting);
	int count = initialised + by;
	if (count >= 0) {
		if (initialised == 0 && by > 0)
			session++;
		initialised = count;
	}
	pthread_mutex_unlock(&counting);
	return count;
}

static const struct fault *fault_of(const struct gpu *gpu, const char *name)
{
	for (unsigned at = 0; at < gpu->faults; at++)
		if (strcmp(gpu->fault[at].call, name) == 0)
			return &gpu->fault[at];
	return NULL;
}

static int hang_of(const struct gpu *gpu, const char *name)
{
	const struct fault *fault = fault_of(gpu, name);
	return fault != NULL && fault->hang_ms != 0 ? fault->hang_ms : gpu->hang_ms;
}

/* Wait as long as the newest world says; one without that hang ends it. */
static const struct gpu *hang(struct call *call, const char *name)
{
	for (int waited = 0;; waited += STEP_MS) {
		const struct gpu *gpu = world_gpu(call->world, call->handle->address);
		int limit = gpu == NULL ? 0 : hang_of(gpu, name);
		if (limit == 0 || (limit != FOR_EVER && waited >= limit))
			return gpu;
		pause_ms(STEP_MS);
		struct world *next = world_hold();
		if (next == NULL)
			return gpu;
		world_let_go(call->world);
		call->world = next;
	}
}

static nvmlReturn_t verdict(struct call *call, const char *name, unsigned kinds)
{
	if (call->gpu == NULL)
		return GPU_IS_LOST;
	if (call->gpu->error != SUCCESS)
		return call->gpu->error;
	const struct fault *fault = fault_of(call->gpu, name);
	if (fault != NULL && fault->result != SUCCESS)
		return fault->result;
	if (!(call->handle->kind & kinds))
		return NOT_SUPPORTED;
	if (call->handle->kind != PART)
		return SUCCESS;
	for (unsigned at = 0; at < call->gpu->parts; at++)
		if (call->gpu->part[at].slot == call->handle->first)
			call->part = &call->gpu->part[at];
	return call->part == NULL ? INVALID_ARGUMENT : SUCCESS;
}

static void take_lock(struct call *call)
{
	call->locked = call->world->lock;
	if (call->locked)
		pthread_mutex_lock(&library);
}

nvmlReturn_t call_open(struct call *call, const char *name, const void *handle, unsigned kinds)
{
	memset(call, 0, sizeof *call);
	if (session_count() == 0)
		return UNINITIALIZED;
	call->handle = handle_check(handle);
	if (call->handle == NULL)
		return INVALID_ARGUMENT;
	call->world = world_hold();
	if (call->world == NULL)
		return UNKNOWN_ERROR;
	call->tally = count_in(call->handle->address);
	take_lock(call);
	call->gpu = hang(call, name);
	nvmlReturn_t result = verdict(call, name, kinds);
	return result == SUCCESS ? SUCCESS : call_close(call, result);
}

nvmlReturn_t library_open(struct call *call, const char *name, int needs_init)
{
	(void)name;
	memset(call, 0, sizeof *call);
	if (needs_init && session_count() == 0)
		return UNINITIALIZED;
	call->world = world_hold();
	if (call->world == NULL)
		return DRIVER_NOT_LOADED;
	call->tally = count_in("library");
	take_lock(call);
	return SUCCESS;
}

nvmlReturn_t call_close(struct call *call, nvmlReturn_t result)
{
	if (call->locked)
		pthread_mutex_unlock(&library);
	world_let_go(call->world);
	count_out(call->tally);
	return result;
}

nvmlReturn_t put_text(char *buffer, unsigned length, const char *text)
{
	if (buffer == NULL)
		return INVALID_ARGUMENT;
	if (strlen(text) + 1 > length)
		return INSUFFICIENT_SIZE;
	memcpy(buffer, text, strlen(text) + 1);
	return SUCCESS;
}
