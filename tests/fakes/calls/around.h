// The caller's side of the count: how long a call took, seen from outside.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "calls/count.h"

namespace scenario {

// The time around `call`, which is a call of all of these functions: of one, and of what it jumps
// to at its end. A call that is left by an exception has none, and a probe has no duration for it.
template <typename Call>
auto around(std::initializer_list<calls_function> functions, Call call) {
    const auto count_all = [&](std::uint64_t before) {
        for (const calls_function function : functions) {
            count_around(function, before);
        }
    };
    const std::uint64_t before = count_now();
    if constexpr (std::is_void_v<decltype(call())>) {
        call();
        count_all(before);
    } else {
        const auto result = call();
        count_all(before);
        return result;
    }
}

template <typename Call>
auto around(calls_function function, Call call) {
    return around({function}, std::move(call));
}

}  // namespace scenario
