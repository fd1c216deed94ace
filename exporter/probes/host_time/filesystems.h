// The file systems that threads wait for.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpusnoop::probes {

// The value of the label `filesystem`, by the s_magic of struct host_file_key.
[[nodiscard]] std::string_view filesystem_name(std::uint32_t magic);

}  // namespace gpusnoop::probes
