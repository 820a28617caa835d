/* What the parts of the stand-in share: the world as parsed, handles, and the gate of every call. */
#ifndef BERTH_STANDIN_H
#define BERTH_STANDIN_H

#include <sys/types.h>

#include "structs.h"

#define API __attribute__((visibility("default")))

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NO_PERMISSION = 4,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
	TIMEOUT = 10,
	GPU_IS_LOST = 15,
	RESET_REQUIRED = 16,
	ARGUMENT_VERSION_MISMATCH = 25,
	UNKNOWN_ERROR = 999
};

enum {
	GPUS = 32,
	PROFILES = 24,
	PLACEMENTS = 16,
	PARTS = 32,
	FIELDS = 16,
	FAULTS = 16,
	EVENTS = 512,
	LINKS = 18,
	PROCESSES = 16,
	TEXT = 96
};
#define FOR_EVER (-1)
#define NO_INSTANCE 0xffffffffu

struct engines {
	unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa;
	u64 memory_mib;
};

struct profile {
	unsigned number, id, slices, instances, places;
	struct engines engines;
	struct placement place[PLACEMENTS];
	char name[TEXT];
};

/* A GPU instance. */
struct instance {
	unsigned id, profile;
	struct placement place;
};

/* A compute instance, which is what NVML calls a MIG device. */
struct part {
	unsigned slot, gi, id, profile;
	struct placement place;
	struct engines engines;
	char uuid[TEXT], name[TEXT];
};

struct field {
	unsigned id, result;
	u64 value;
};

/* One call that fails or hangs on one GPU; other calls on it go well. */
struct fault {
	char call[64];
	unsigned result;
	int hang_ms;
};

struct event {
	u64 sequence, type, data;
	unsigned gi, ci;
};

struct link {
	unsigned number;
	char remote[32];
};

struct running {
	unsigned pid, gi, ci;
};

struct gpu {
	char address[32], uuid[TEXT], name[TEXT];
	unsigned minor, device_id, subsystem, brand, architecture, major_cc, minor_cc;
	unsigned addressing, virtualization, persistence, compute_mode;
	int numa;
	u64 memory_bytes, supported_events;
	int mig_supported, mig_current, mig_pending, mig_rights;
	unsigned mig_slots, error;
	int hang_ms, absent, has_engines;
	struct engines engines;
	unsigned profiles, instances, parts, fields, faults, events, links, processes;
	struct profile profile[PROFILES];
	struct instance instance[PARTS];
	struct part part[PARTS];
	struct field field[FIELDS];
	struct fault fault[FAULTS];
	struct event event[EVENTS];
	struct link link[LINKS];
	struct running running[PROCESSES];
};

struct world {
	ino_t inode;
	long changed_s, changed_ns;
	int holders;
	char driver[80], nvml[80];
	int cuda, init_error, init_hang_ms, shutdown_hang_ms, lock, storm;
	unsigned wait_error, gpus;
	struct gpu gpu[GPUS];
};

/* world.c: give the newest world, held until let go; NULL when there is none that can be read. */
struct world *world_hold(void);
void world_let_go(struct world *world);
const struct gpu *world_gpu(const struct world *world, const char *address);

/* handles.c: a handle is the address of one of these, and the same for the same thing for ever. */
enum { FULL = 1, PART = 2, INSTANCE = 4, COMPUTE = 8 };
struct handle {
	unsigned kind;
	char address[32];
	unsigned first, second; /* slot; or id of the GPU instance, and of the compute instance */
	struct handle *next;
};
struct handle *handle_of(unsigned kind, const char *address, unsigned first, unsigned second);
const struct handle *handle_check(const void *pointer);

/* gate.c: every call goes in by call_open and out by call_close. */
struct call {
	struct world *world;
	const struct handle *handle;
	const struct gpu *gpu;
	const struct part *part; /* of a MIG handle */
	int locked, tally;
};
nvmlReturn_t call_open(struct call *call, const char *name, const void *handle, unsigned kinds);
nvmlReturn_t call_close(struct call *call, nvmlReturn_t result);
nvmlReturn_t library_open(struct call *call, const char *name, int needs_init);
nvmlReturn_t put_text(char *buffer, unsigned length, const char *text);
int session_count(void);
int session_add(int by);
unsigned session_number(void);
void pause_ms(int ms);

#define ENTER(handle, kinds) \
	struct call call; \
	nvmlReturn_t opened = call_open(&call, __func__, (handle), (kinds)); \
	if (opened != SUCCESS) \
		return opened
#define ENTER_LIBRARY(needs_init) \
	struct call call; \
	nvmlReturn_t opened = library_open(&call, __func__, (needs_init)); \
	if (opened != SUCCESS) \
		return opened
#define LEAVE(result) return call_close(&call, (result))
#define PUT(pointer, what) \
	do { \
		if ((pointer) == NULL) \
			LEAVE(INVALID_ARGUMENT); \
		*(pointer) = (what); \
		LEAVE(SUCCESS); \
	} while (0)

#endif
