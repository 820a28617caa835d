/* Fields by number, and the counters of memory errors. */
#include "standin.h"

enum { FIELD_UNSIGNED = 1, FIELD_WIDE = 3 };

static void fill(const struct gpu *gpu, struct field_value *value)
{
	value->result = NOT_SUPPORTED;
	value->type = FIELD_UNSIGNED;
	value->value.wide = 0;
	for (unsigned at = 0; at < gpu->fields; at++) {
		if (gpu->field[at].id != value->id)
			continue;
		value->result = gpu->field[at].result;
		value->value.wide = gpu->field[at].value;
		value->type = gpu->field[at].value >> 32 ? FIELD_WIDE : FIELD_UNSIGNED;
	}
}

API nvmlReturn_t nvmlDeviceGetFieldValues(const void *device, int count, struct field_value *values)
{
	ENTER(device, FULL | PART);
	if (count < 1 || values == NULL)
		LEAVE(INVALID_ARGUMENT);
	for (int at = 0; at < count; at++)
		fill(call.gpu, &values[at]);
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetEccMode(const void *device, unsigned *current, unsigned *pending)
{
	ENTER(device, FULL);
	if (current == NULL || pending == NULL)
		LEAVE(INVALID_ARGUMENT);
	*current = *pending = 1;
	LEAVE(SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(const void *device, unsigned error, unsigned counter,
					     u64 *count)
{
	(void)error;
	(void)counter;
	ENTER(device, FULL | PART);
	PUT(count, 0);
}

static nvmlReturn_t field(const struct gpu *gpu, unsigned id, unsigned *to)
{
	struct field_value value = {.id = id};
	fill(gpu, &value);
	*to = value.value.number;
	return value.result;
}

API nvmlReturn_t nvmlDeviceGetRemappedRows(const void *device, unsigned *correctable,
					   unsigned *uncorrectable, unsigned *pending,
					   unsigned *failure)
{
	ENTER(device, FULL);
	if (!correctable || !uncorrectable || !pending || !failure)
		LEAVE(INVALID_ARGUMENT);
	*correctable = *uncorrectable = 0;
	nvmlReturn_t result = field(call.gpu, 144, pending);
	LEAVE(result != SUCCESS ? result : field(call.gpu, 145, failure));
}

API nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(const void *device, unsigned *pending)
{
	ENTER(device, FULL);
	if (pending == NULL)
		LEAVE(INVALID_ARGUMENT);
	LEAVE(field(call.gpu, 31, pending));
}
