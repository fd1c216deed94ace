#include "exporter/probes/frame/frame_json.h"

#include <string>

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

Json known(const std::string &text) {
    return text.empty() ? Json() : Json(text);
}

}  // namespace

Json to_json(const symbols::Frame &frame) {
    // Without a function or a file, the offset would be an address of the process.
    const bool has_offset = !frame.function.empty() || !frame.module.empty();
    return {{"function", known(frame.function)},
            {"module", known(frame.module)},
            {"offset", has_offset ? Json(frame.offset) : Json()}};
}

}  // namespace gpusnoop::probes
