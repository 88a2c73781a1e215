/* A driver that says what it is asked. FAKE in the environment makes it refuse something. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t grid[3], block[3], shared;
    void *stream;
    struct { int32_t id; char pad[4]; uint32_t cluster[3]; } *attributes;
    uint32_t count;
} Config;

static int fake(const char *what)
{
    const char *text = getenv("FAKE");
    return text != NULL && strcmp(text, what) == 0;
}

static void numbers(const char *name, int count, const void *from, int wide)
{
    printf(" %s", name);
    for (int n = 0; n < count; n++) {
        printf("%c%lld", n ? ',' : '=', wide ? (long long)((const int64_t *)from)[n] : (long long)((const int32_t *)from)[n]);
    }
}

int cuInit(unsigned flags) { return (int)flags; }
int cuCtxGetDevice(int *device) { *device = 0; return fake("context") ? 201 : 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { *value = which == 75 ? (fake("old") ? 8 : 9) : 0; return device; }
int cuGetErrorName(int code, const char **name) { *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE"; return 0; }
int cuLibraryLoadData(void **made, const void *code, void *a, void *b, unsigned c, void *d, void *e, unsigned f)
{
    printf("load %.4s\n", (const char *)code);
    *made = (void *)code;
    return fake("load") ? 209 : a || b || c || d || e || f;
}
int cuLibraryGetKernel(void **made, void *library, const char *name) { *made = strdup(name); return library == NULL; }
int cuKernelSetAttribute(int which, int value, void *kernel, int device)
{
    printf("attribute %d of %s is %d\n", which, (char *)kernel, value);
    return device;
}
int cuOccupancyMaxActiveClusters(int *most, void *kernel, const Config *config)
{
    printf("clusters of %s: %d, %u\n", (char *)kernel, config->attributes->id, config->attributes->cluster[0]);
    *most = 3;
    return config->count != 1;
}
static long long maps;
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *sizes, const uint64_t *strides,
    const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill)
{
    printf("tiled %lld: type=%d at=%llx", ++maps, type, (unsigned long long)address);
    numbers("sizes", (int)rank, sizes, 1), numbers("strides", (int)rank - 1, strides, 1);
    numbers("box", (int)rank, box, 0), numbers("steps", (int)rank, steps, 0);
    printf(" %d %d %d %d\n", interleave, swizzle, promotion, fill);
    memset(map, 0, 128);
    memcpy(map, &maps, 8);
    return (uintptr_t)map % 64 != 0;
}
int cuTensorMapEncodeIm2col(void *map, int type, uint32_t rank, void *address, const uint64_t *sizes, const uint64_t *strides,
    const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave, int swizzle,
    int promotion, int fill)
{
    printf("pixels %lld: type=%d at=%llx", ++maps, type, (unsigned long long)address);
    numbers("sizes", (int)rank, sizes, 1), numbers("strides", (int)rank - 1, strides, 1);
    numbers("lower", (int)rank - 2, lower, 0), numbers("upper", (int)rank - 2, upper, 0);
    printf(" %u of %u", channels, pixels), numbers("steps", (int)rank, steps, 0);
    printf(" %d %d %d %d\n", interleave, swizzle, promotion, fill);
    memcpy(map, &maps, 8);
    return (uintptr_t)map % 64 != 0;
}
static int set(int bits, uint64_t to, unsigned value, size_t count, void *stream)
{
    printf("set%d %llx to %x on %p\n", bits, (unsigned long long)to, value, stream);
    return count != 1;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream) { return set(8, to, value, count, stream); }
int cuMemsetD16Async(uint64_t to, unsigned short value, size_t count, void *stream) { return set(16, to, value, count, stream); }
int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream) { return set(32, to, value, count, stream); }
static int32_t *word;
int cuMemHostAlloc(void **made, size_t bytes, unsigned flags)
{
    word = *made = calloc(1, bytes);
    return flags != 3;
}
int cuLaunchKernelEx(const Config *config, void *kernel, void **arguments, void **extra)
{
    printf("launch %s<%u,%u,%u %u,%u,%u %u %p>", (char *)kernel, config->grid[0], config->grid[1], config->grid[2], config->block[0],
        config->block[1], config->block[2], config->shared, config->stream);
    for (; *arguments != NULL; arguments++) {
        const uint64_t value = *(const uint64_t *)*arguments;
        printf(value == (uint64_t)(uintptr_t)word ? " word" : " %llx", (unsigned long long)value);
    }
    printf("\n");
    if (fake("stop")) {
        *word = 1;
    }
    return fake("launch") ? 700 : extra != NULL || config->count != 0;
}
