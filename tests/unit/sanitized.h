// Is this a build with a sanitizer? It is slower, and its code is not what compilers usually make.
#pragma once

#if defined(__has_feature)  // clang's way to say it
#define GPUSNOOP_HAS(what) __has_feature(what)
#else
#define GPUSNOOP_HAS(what) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    GPUSNOOP_HAS(address_sanitizer) || GPUSNOOP_HAS(thread_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
#undef GPUSNOOP_HAS

// Of random input. With a sanitizer each takes ten times as long, and a quarter of them runs the
// same code; scripts/fuzz.sh has more than either.
constexpr int random_rounds(int of) {
    return is_sanitized ? of / 4 : of;
}
