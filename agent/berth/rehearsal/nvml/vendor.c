/* Compiled, never linked, where a machine has the vendor's header: its structures against ours. */
#include <nvml.h>

#define SAME(theirs, size) _Static_assert(sizeof(theirs) == (size), #theirs)

SAME(nvmlPciInfo_t, 68);
SAME(nvmlMemory_t, 24);
SAME(nvmlMemory_v2_t, 40);
SAME(nvmlDeviceAttributes_t, 40);
SAME(nvmlGpuInstanceProfileInfo_t, 48);
SAME(nvmlGpuInstanceProfileInfo_v2_t, 152);
SAME(nvmlGpuInstancePlacement_t, 8);
SAME(nvmlGpuInstanceInfo_t, 24);
SAME(nvmlComputeInstanceInfo_t, 32);
SAME(nvmlDeviceAddressingMode_t, 8);
SAME(nvmlEventData_t, 32);
SAME(nvmlFieldValue_t, 40);
