/* Init, shutdown, and what is said of the whole machine. */
#include "standin.h"

static void wait_as_told(int which)
{
	for (int waited = 0;; waited += 5) {
		struct world *world = world_hold();
		if (world == NULL)
			return;
		int limit = which ? world->shutdown_hang_ms : world->init_hang_ms;
		world_let_go(world);
		if (limit == 0 || (limit != FOR_EVER && waited >= limit))
			return;
		pause_ms(5);
	}
}

API nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	wait_as_told(0);
	ENTER_LIBRARY(0);
	if (call.world->init_error != SUCCESS)
		LEAVE((nvmlReturn_t)call.world->init_error);
	if (call.world->gpus == 0 && !(flags & 1))
		LEAVE(NOT_FOUND);
	session_add(1);
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlShutdown(void)
{
	wait_as_told(1);
	ENTER_LIBRARY(1);
	LEAVE(session_add(-1) < 0 ? UNINITIALIZED : SUCCESS);
}

API const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case SUCCESS:
		return "Success";
	case UNINITIALIZED:
		return "Uninitialized";
	case GPU_IS_LOST:
		return "GPU is lost";
	default:
		return "An error of the stand-in";
	}
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	ENTER_LIBRARY(1);
	LEAVE(put_text(version, length, call.world->driver));
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	ENTER_LIBRARY(0);
	LEAVE(put_text(version, length, call.world->nvml));
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	ENTER_LIBRARY(0);
	PUT(version, call.world->cuda);
}
