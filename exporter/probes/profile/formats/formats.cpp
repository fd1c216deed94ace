#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

const std::map<std::string, ProfileType> &profile_types() {
    static const std::map<std::string, ProfileType> types = {
        {"cpu", ProfileType::cpu},
        {"offcpu", ProfileType::offcpu},
        {"page_faults", ProfileType::page_faults},
        {"heap", ProfileType::heap}};
    return types;
}

std::string_view name_of(ProfileType type) {
    switch (type) {
        case ProfileType::offcpu:
            return "offcpu";
        case ProfileType::page_faults:
            return "page_faults";
        case ProfileType::heap:
            return "heap";
        case ProfileType::cpu:
            break;
    }
    return "cpu";
}

const std::map<std::string, ProfileFormat> &profile_formats() {
    static const std::map<std::string, ProfileFormat> formats = {{"folded", ProfileFormat::folded},
                                                                 {"json", ProfileFormat::json},
                                                                 {"pprof", ProfileFormat::pprof},
                                                                 {"svg", ProfileFormat::svg}};
    return formats;
}

std::optional<std::string> to_format(const Profile &profile, ProfileFormat format) {
    switch (format) {
        case ProfileFormat::json:
            return to_json(profile);
        case ProfileFormat::pprof:
            return to_pprof(profile);
        case ProfileFormat::svg:
            return to_svg(profile);
        case ProfileFormat::folded:
            break;
    }
    return to_folded(profile);
}

}  // namespace gpusnoop::probes
