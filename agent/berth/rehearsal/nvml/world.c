/* The world: what the file named by BERTH_NVML_WORLD says, read again when another file takes its
 * place. A line is a word and what belongs to it; a line "gpu ADDRESS" begins a GPU, and what
 * follows is that GPU's. world.py writes these files and says what each line means.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "standin.h"

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct world *newest;

static int take_engines(const char *line, struct engines *to)
{
	return sscanf(line, "%u %u %u %u %u %u %llu", &to->multiprocessors, &to->copy, &to->decoders,
		      &to->encoders, &to->jpeg, &to->ofa, &to->memory_mib) == 7;
}

static int take_text(const char *line, char *to, size_t room)
{
	snprintf(to, room, "%s", line);
	return 1;
}

static int take_profile(struct gpu *gpu, const char *line)
{
	if (gpu->profiles == PROFILES)
		return 0;
	struct profile *profile = &gpu->profile[gpu->profiles++];
	int at = 0;
	if (sscanf(line, "%u %u %u %u %n", &profile->number, &profile->id, &profile->slices,
		   &profile->instances, &at) != 4)
		return 0;
	return take_text(line + at, profile->name, sizeof profile->name);
}

static int take_place(struct gpu *gpu, const char *line)
{
	if (gpu->profiles == 0 || gpu->profile[gpu->profiles - 1].places == PLACEMENTS)
		return 0;
	struct profile *profile = &gpu->profile[gpu->profiles - 1];
	struct placement *place = &profile->place[profile->places++];
	return sscanf(line, "%u %u", &place->start, &place->size) == 2;
}

static int take_instance(struct gpu *gpu, const char *line)
{
	if (gpu->instances == PARTS)
		return 0;
	struct instance *instance = &gpu->instance[gpu->instances++];
	return sscanf(line, "%u %u %u %u", &instance->id, &instance->profile,
		      &instance->place.start, &instance->place.size) == 4;
}

static int take_part(struct gpu *gpu, const char *line)
{
	if (gpu->parts == PARTS)
		return 0;
	struct part *part = &gpu->part[gpu->parts++];
	return sscanf(line, "%u %u %u %u %u %u %95s", &part->slot, &part->gi, &part->id,
		      &part->profile, &part->place.start, &part->place.size, part->uuid) == 7;
}

static int take_field(struct gpu *gpu, const char *line)
{
	if (gpu->fields == FIELDS)
		return 0;
	struct field *field = &gpu->field[gpu->fields++];
	return sscanf(line, "%u %u %llu", &field->id, &field->result, &field->value) == 3;
}

static int take_fault(struct gpu *gpu, const char *line)
{
	if (gpu->faults == FAULTS)
		return 0;
	struct fault *fault = &gpu->fault[gpu->faults++];
	return sscanf(line, "%63s %u %d", fault->call, &fault->result, &fault->hang_ms) == 3;
}

static int take_event(struct gpu *gpu, const char *line)
{
	if (gpu->events == EVENTS)
		return 0;
	struct event *event = &gpu->event[gpu->events++];
	return sscanf(line, "%llu %llu %llu %u %u", &event->sequence, &event->type, &event->data,
		      &event->gi, &event->ci) == 5;
}

static int take_link(struct gpu *gpu, const char *line)
{
	if (gpu->links == LINKS)
		return 0;
	struct link *link = &gpu->link[gpu->links++];
	return sscanf(line, "%u %31s", &link->number, link->remote) == 2;
}

static int take_process(struct gpu *gpu, const char *line)
{
	if (gpu->processes == PROCESSES)
		return 0;
	struct running *running = &gpu->running[gpu->processes++];
	return sscanf(line, "%u %u %u", &running->pid, &running->gi, &running->ci) == 3;
}

#define NUMBER(key, format, to) \
	if (strcmp(word, key) == 0) \
	return sscanf(line, format, to) == 1
#define STRING(key, to) \
	if (strcmp(word, key) == 0) \
	return take_text(line, to, sizeof(to))

static int take_gpu_line(struct gpu *gpu, const char *word, const char *line)
{
	STRING("uuid", gpu->uuid);
	STRING("name", gpu->name);
	NUMBER("minor", "%u", &gpu->minor);
	NUMBER("device_id", "%x", &gpu->device_id);
	NUMBER("subsystem", "%x", &gpu->subsystem);
	NUMBER("brand", "%u", &gpu->brand);
	NUMBER("architecture", "%u", &gpu->architecture);
	NUMBER("addressing", "%u", &gpu->addressing);
	NUMBER("virtualization", "%u", &gpu->virtualization);
	NUMBER("persistence", "%u", &gpu->persistence);
	NUMBER("compute_mode", "%u", &gpu->compute_mode);
	NUMBER("numa", "%d", &gpu->numa);
	NUMBER("memory_bytes", "%llu", &gpu->memory_bytes);
	NUMBER("supported_events", "%llu", &gpu->supported_events);
	NUMBER("mig_slots", "%u", &gpu->mig_slots);
	NUMBER("mig_rights", "%d", &gpu->mig_rights);
	NUMBER("error", "%u", &gpu->error);
	NUMBER("hang_ms", "%d", &gpu->hang_ms);
	NUMBER("absent", "%d", &gpu->absent);
	if (strcmp(word, "capability") == 0)
		return sscanf(line, "%u %u", &gpu->major_cc, &gpu->minor_cc) == 2;
	if (strcmp(word, "mig") == 0) {
		gpu->mig_supported = 1;
		return sscanf(line, "%d %d", &gpu->mig_current, &gpu->mig_pending) == 2;
	}
	if (strcmp(word, "engines") == 0) {
		gpu->has_engines = 1;
		return take_engines(line, &gpu->engines);
	}
	if (strcmp(word, "profile") == 0)
		return take_profile(gpu, line);
	if (strcmp(word, "profile_engines") == 0)
		return gpu->profiles && take_engines(line, &gpu->profile[gpu->profiles - 1].engines);
	if (strcmp(word, "place") == 0)
		return take_place(gpu, line);
	if (strcmp(word, "instance") == 0)
		return take_instance(gpu, line);
	if (strcmp(word, "part") == 0)
		return take_part(gpu, line);
	if (strcmp(word, "part_engines") == 0)
		return gpu->parts && take_engines(line, &gpu->part[gpu->parts - 1].engines);
	if (strcmp(word, "part_name") == 0)
		return gpu->parts && take_text(line, gpu->part[gpu->parts - 1].name, TEXT);
	if (strcmp(word, "field") == 0)
		return take_field(gpu, line);
	if (strcmp(word, "fault") == 0)
		return take_fault(gpu, line);
	if (strcmp(word, "event") == 0)
		return take_event(gpu, line);
	if (strcmp(word, "link") == 0)
		return take_link(gpu, line);
	if (strcmp(word, "process") == 0)
		return take_process(gpu, line);
	return 0;
}

static int take_line(struct world *world, const char *word, const char *line)
{
	STRING("driver", world->driver);
	STRING("nvml", world->nvml);
	NUMBER("cuda", "%d", &world->cuda);
	NUMBER("init_error", "%d", &world->init_error);
	NUMBER("init_hang_ms", "%d", &world->init_hang_ms);
	NUMBER("shutdown_hang_ms", "%d", &world->shutdown_hang_ms);
	NUMBER("lock", "%d", &world->lock);
	NUMBER("storm", "%d", &world->storm);
	NUMBER("wait_error", "%u", &world->wait_error);
	if (strcmp(word, "gpu") == 0 && world->gpus < GPUS) {
		struct gpu *gpu = &world->gpu[world->gpus++];
		gpu->mig_rights = 1;
		gpu->numa = -1;
		return take_text(line, gpu->address, sizeof gpu->address);
	}
	return world->gpus && take_gpu_line(&world->gpu[world->gpus - 1], word, line);
}

static int parse(struct world *world, FILE *file)
{
	char line[512], word[32];
	int number = 0;
	while (fgets(line, sizeof line, file) != NULL) {
		int at = 0;
		number++;
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%31s %n", word, &at) != 1)
			continue;
		if (!take_line(world, word, line + at)) {
			fprintf(stderr, "NVML stand-in: world line %d: %s\n", number, line);
			return 0;
		}
	}
	return 1;
}

static struct world *load(const char *path, const struct stat *seen)
{
	FILE *file = fopen(path, "re");
	struct world *world = file == NULL ? NULL : calloc(1, sizeof *world);
	if (world != NULL && !parse(world, file)) {
		free(world);
		world = NULL;
	}
	if (file != NULL)
		fclose(file);
	if (world == NULL)
		return NULL;
	world->inode = seen->st_ino;
	world->changed_s = seen->st_ctim.tv_sec;
	world->changed_ns = seen->st_ctim.tv_nsec;
	world->holders = 1; /* being the newest */
	return world;
}

static void let_go(struct world *world)
{
	if (world != NULL && --world->holders == 0)
		free(world);
}

/* An inode number may be used again at once, so the time of its making is compared as well. */
static int is_of(const struct world *world, const struct stat *seen)
{
	return world != NULL && world->inode == seen->st_ino &&
	       world->changed_s == seen->st_ctim.tv_sec && world->changed_ns == seen->st_ctim.tv_nsec;
}

struct world *world_hold(void)
{
	const char *path = getenv("BERTH_NVML_WORLD");
	struct stat seen;
	if (path == NULL || stat(path, &seen) != 0)
		return NULL;
	pthread_mutex_lock(&guard);
	if (!is_of(newest, &seen)) {
		struct world *world = load(path, &seen);
		if (world != NULL) {
			let_go(newest);
			newest = world;
		}
	}
	struct world *held = newest;
	if (held != NULL)
		held->holders++;
	pthread_mutex_unlock(&guard);
	return held;
}

void world_let_go(struct world *world)
{
	pthread_mutex_lock(&guard);
	let_go(world);
	pthread_mutex_unlock(&guard);
}

const struct gpu *world_gpu(const struct world *world, const char *address)
{
	for (unsigned at = 0; at < world->gpus; at++)
		if (strcmp(world->gpu[at].address, address) == 0 && !world->gpu[at].absent)
			return &world->gpu[at];
	return NULL;
}
