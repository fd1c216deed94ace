// `gpusnoop_exporter why --oom`: the last times that programs ran out of GPU memory, and who held
// it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "exporter/base/result.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::why {

inline constexpr std::string_view oom_path = "/api/v1/out_of_memory";

struct OomText {
    std::string text;  // the oldest first, so that the last one ends the output
    bool has_any = false;
};

// Of an answer of that page, those of programs with the comm and script that `is_shown` takes. An
// error if the answer is none.
[[nodiscard]] Result<OomText> oom_text(
    std::string_view json, const std::function<bool(const processes::ProcessNames &)> &is_shown);

}  // namespace gpusnoop::why
