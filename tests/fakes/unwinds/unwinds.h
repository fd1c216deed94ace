#pragma once

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((visibility("default"))) long unwinds_call(long value, int panics);

#ifdef __cplusplus
}
#endif
