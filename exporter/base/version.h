// Identifies this build.
#pragma once

#include <string>
#include <string_view>

namespace gpusnoop {

std::string_view version();
std::string_view revision();

// What --version prints.
std::string version_text(const std::string &libbpf_version);

}  // namespace gpusnoop
