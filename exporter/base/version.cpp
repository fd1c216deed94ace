#include "exporter/base/version.h"

namespace gpusnoop {

std::string_view version() {
    return GPUSNOOP_VERSION;
}
std::string_view revision() {
    return GPUSNOOP_REVISION;
}

std::string version_text(const std::string &libbpf_version) {
    return "gpusnoop_exporter, version " + std::string(version()) +
           " (revision: " + std::string(revision()) +
           ")\n  compiler: g++ " __VERSION__ "\n  libbpf: " + libbpf_version;
}

}  // namespace gpusnoop
