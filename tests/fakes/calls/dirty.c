/* Without calls.h, by which this function returns an int: so that the rest of the register holds
 * what it may hold. */
#include "calls/count.h"

__attribute__((visibility("default"))) uint64_t calls_dirty(uint32_t code);

uint64_t calls_dirty(uint32_t code) {
    const uint64_t began = count_begin(CALLS_dirty);
    count_end_with(CALLS_dirty, began, (int64_t)(int32_t)code);
    return UINT64_C(0xdead) << 32 | code;
}
