/* Stands in for the driver's library towards tests/hardware/cuda.py: it shows that the calls are put
 * together as cuda.h says, and nothing of a GPU. A kernel "tell" writes a number to an address; one
 * that no page lies at is answered as the driver does, and told as an XID by the stand-in for NVML,
 * whose world ends with the GPU that it is of. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ILLEGAL_ADDRESS = 700, INVALID_VALUE = 1 };

static char module, function[2];
static int dead;

int cuInit(unsigned flags)
{
	return flags != 0;
}

int cuDeviceGetCount(int *count)
{
	*count = 1;
	return 0;
}

int cuDeviceGet(int *device, int number)
{
	*device = number;
	return number != 0;
}

int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
	*context = &module;
	return flags != 0 || device != 0;
}

int cuModuleLoadData(void **loaded, const char *text)
{
	*loaded = &module;
	return strstr(text, ".visible .entry tell") == NULL;
}

int cuModuleGetFunction(void **found, void *loaded, const char *name)
{
	*found = &function[strcmp(name, "spin") == 0];
	return loaded != &module;
}

/* A line more, in a file beside that then takes the place of the world. */
static void tell_xid(void)
{
	const char *world = getenv("BERTH_NVML_WORLD");
	char beside[512], line[512];
	if (world == NULL)
		return;
	snprintf(beside, sizeof beside, "%s.xid", world);
	FILE *from = fopen(world, "r"), *to = fopen(beside, "w");
	while (from && to && fgets(line, sizeof line, from))
		fputs(line, to);
	if (to) {
		fputs("event 1 8 31 4294967295 4294967295\n", to);
		fclose(to);
		rename(beside, world);
	}
	if (from)
		fclose(from);
}

int cuLaunchKernel(void *what, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
	if (gx * gy * gz * bx * by * bz != 1 || shared || stream || extra)
		return INVALID_VALUE;
	uint64_t argument = *(uint64_t *)parameters[0];
	if (what == &function[0] && argument < 4096) {
		dead = 1;
		tell_xid();
	} else if (what == &function[0])
		*(uint32_t *)(uintptr_t)argument = 4711;
	return 0;
}

int cuCtxSynchronize(void)
{
	return dead ? ILLEGAL_ADDRESS : 0;
}

int cuMemAlloc_v2(uint64_t *where, size_t size)
{
	*where = (uint64_t)(uintptr_t)calloc(1, size);
	return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
	memcpy(to, (void *)(uintptr_t)from, size);
	return 0;
}
